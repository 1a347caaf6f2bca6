"""Code mapped over a cluster that Ray runs.

    from belljar.ray import Pool

    with Pool() as pool:
        for result in pool.map("result = item ** 2", range(1000), timeout=2):
            print(result.result)

Each worker is a process with a runtime of its own, and does one run at a time. What a worker had
when it was lost is done again by another, as often as ``retries`` says: runs have no side effects.

With a ``store`` a pool has sessions, too: ``pool.session(id)`` is one that any worker goes on with.

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
