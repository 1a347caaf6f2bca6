"""Runs code on a Ray cluster.

    from belljar.ray import Pool

    with Pool() as pool:
        for result in pool.map("result = item ** 2", range(1000), timeout=2):
            print(result.result)

Each worker is a process with its own runtime, and executes one run at a time. If a worker is lost,
its inputs are retried on another up to ``retries`` times: runs have no side effects. With a
``store`` a pool also has sessions: ``pool.session(id)`` can run on any worker.

``Batch`` and ``map_batches`` run code on the batches of a ``ray.data`` dataset.
"""

from ._batch import Batch, BatchError, map_batches
from ._pool import Pool, WorkerInfo
from ._result import LostError, Result
from ._sessions import PoolSession

__all__ = [
    "Batch",
    "BatchError",
    "LostError",
    "Pool",
    "PoolSession",
    "Result",
    "WorkerInfo",
    "map_batches",
]
