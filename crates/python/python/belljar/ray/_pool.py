"""A pool of workers in a cluster, and mapping code over inputs."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from belljar import _options
from belljar._stored import check_options

from ._crew import Chunk, Crew, WorkerInfo, ray_module
from ._result import Result
from ._sessions import PoolSession, aask, ask
from ._travel import travelling
from ._worker import Deed, Job

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from belljar._types import RunOptions, SessionOptions, Settings

__all__ = ["Pool", "WorkerInfo"]

# Number of inputs that a map reads ahead, for each worker.
_CHUNKS_AHEAD = 4


class Pool:
    """Workers in a cluster. Any thread and any event loop may use the pool.

    ``workers`` is their number (by default as many as the cluster has room for), ``num_cpus`` the
    CPUs that each takes; ``actor_options`` are further options of Ray's actors (``memory``,
    ``resources``, ``scheduling_strategy``, ``runtime_env``). ``image`` is loaded in each worker
    before its first run and is the default of runs; without it, runs choose an image by their
    imports. ``settings`` are those of :class:`belljar.Runtime`. ``store`` and ``lease`` are those
    of :class:`belljar.StoredSessions`, for sessions that any worker can run.

    Without a connection to a cluster, ``ray.init()`` is called. Workers start in the background; if
    they cannot be started, the submitted work fails.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        image: str | None = None,
        num_cpus: float = 1,
        actor_options: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        store: str | os.PathLike[str] | None = None,
        lease: float | None = None,
    ) -> None:
        ray = ray_module()
        if not ray.is_initialized():
            ray.init()
        if workers is None:
            room = ray.cluster_resources().get("CPU", 1)
            workers = max(1, int(room // num_cpus)) if num_cpus else 1
        if workers < 1:
            raise ValueError(f"a pool has at least one worker, not {workers}")
        options = {"num_cpus": num_cpus, **(actor_options or {})}
        held = None if store is None else {"store": os.fspath(store), "lease": lease}
        self._crew = Crew(workers, options, dict(settings or {}), image, held)
        self._has_store = held is not None
        # Not a method of the pool, which would keep the pool alive.
        self._finalizer = weakref.finalize(self, self._crew.close)

    def map(
        self,
        code: str,
        inputs: Iterable[Any],
        *,
        variable: str | None = "item",
        ordered: bool = True,
        retries: int = 2,
        chunk: int = 1,
        collect_bytes: int = 0,
        **options: Unpack[RunOptions],
    ) -> Iterator[Result]:
        """Runs code once for each input, and yields a :class:`Result` for each, in order.

        The input is in the variable ``variable``; with None, each input is a mapping from variable
        names to values. ``ordered=False`` yields results as they come. If a worker is lost, its
        inputs are retried up to ``retries`` times. ``chunk`` inputs are sent together, which is
        faster if runs take less than a millisecond. ``collect_bytes`` limits the files returned
        with each result. Further options are those of :meth:`belljar.Runtime.run`.

        Inputs are read on demand. Closing the iterator drops inputs whose runs have not started.
        """
        flow = self._flow(code, inputs, variable, retries, chunk, collect_bytes, ordered, options)
        return _iterate(flow)

    def amap(
        self,
        code: str,
        inputs: Iterable[Any],
        *,
        variable: str | None = "item",
        ordered: bool = True,
        retries: int = 2,
        chunk: int = 1,
        collect_bytes: int = 0,
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Result]:
        """Asynchronous variant for ``async for``."""
        flow = self._flow(code, inputs, variable, retries, chunk, collect_bytes, ordered, options)
        return _aiterate(flow)

    def run(
        self,
        code: str,
        *,
        retries: int = 2,
        collect_bytes: int = 0,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Runs code once, on any worker."""
        flow = self._flow(code, [{}], None, retries, 1, collect_bytes, True, options)
        return next(_iterate(flow))

    async def arun(
        self,
        code: str,
        *,
        retries: int = 2,
        collect_bytes: int = 0,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Asynchronous variant."""
        flow = self._flow(code, [{}], None, retries, 1, collect_bytes, True, options)
        return await _aiterate(flow).__anext__()

    def create(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> PoolSession:
        """Creates a session in the pool's store, on any worker. Takes the options of
        :meth:`belljar.StoredSessions.create`; the default image is the pool's.
        """
        id: str = ask(self, self._creating(about, options))
        return PoolSession(self, id)

    async def acreate(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> PoolSession:
        """Asynchronous variant."""
        id: str = await aask(self, self._creating(about, options))
        return PoolSession(self, id)

    def session(self, id: str) -> PoolSession:
        """Returns a handle to the session with this id in the pool's store, which can run on any
        worker. Does not check that the session exists.
        """
        self._check_store()
        return PoolSession(self, id)

    def _creating(self, about: Mapping[str, Any] | None, options: Any) -> Deed:
        self._check_store()
        check_options(options)
        held = travelling(options, "create", _options.SESSION_OPTIONS)
        return Deed("create", None, (dict(about or {}),), held)

    def _check_store(self) -> None:
        self._crew.check_process()
        if not self._has_store:
            raise ValueError("the pool has no store for sessions: Pool(..., store=...)")

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The running workers."""
        return self._crew.workers()

    def close(self) -> None:
        """Stops the workers and their runs. Pending work fails with a ClosedError."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Pool belongs to this process and cannot be pickled")

    def __repr__(self) -> str:
        return f"<belljar.ray.Pool of {self._crew.size} workers>"

    def _flow(
        self,
        code: str,
        inputs: Iterable[Any],
        variable: str | None,
        retries: int,
        chunk: int,
        collect_bytes: int,
        ordered: bool,
        options: Any,
    ) -> _Flow:
        if chunk < 1 or retries < 0 or collect_bytes < 0:
            raise ValueError("chunk is at least 1; retries and collect_bytes are not negative")
        self._crew.check_process()
        job = Job(code, travelling(options), variable, collect_bytes)
        return _Flow(self, self._crew, job, iter(inputs), retries, chunk, ordered)


class _Flow:
    """The inputs and results of one map."""

    def __init__(
        self,
        pool: Pool,
        crew: Crew,
        job: Job,
        inputs: Iterator[Any],
        retries: int,
        chunk: int,
        ordered: bool,
    ) -> None:
        # A reference, because garbage collection of the pool would stop its work.
        self._pool = pool
        self._crew = crew
        self._job: Any = job
        self._inputs = inputs
        self._retries = retries
        self._chunk = chunk
        self._ordered = ordered
        self._window = crew.size * chunk * _CHUNKS_AHEAD
        self._sent = 0
        self._yielded = 0
        self._early: dict[int, Result] = {}
        self._exhausted = False
        self._dropped = False

    def send(self, notify: Callable[[list[Result]], object]) -> bool:
        """Sends as many inputs as fit. Returns whether more results will come."""
        if self._sent == 0:
            # Once for all inputs, not with each of them.
            self._job = ray_module().put(self._job)
        while not self._exhausted and self._sent - self._yielded < self._window:
            inputs = list(islice(self._inputs, self._chunk))
            self._exhausted = len(inputs) < self._chunk
            if inputs:
                held = list(enumerate(inputs, self._sent))
                self._sent += len(held)
                self._crew.submit(
                    Chunk(self._job, held, self._retries, notify, lambda: self._dropped)
                )
        return self._yielded < self._sent

    def ready(self, results: list[Result]) -> Iterator[Result]:
        """Results that are due now."""
        if not self._ordered:
            self._yielded += len(results)
            yield from results
            return
        self._early.update((result.index, result) for result in results)
        while self._yielded in self._early:
            result = self._early.pop(self._yielded)
            self._yielded += 1
            yield result

    def drop(self) -> None:
        """Cancels the map."""
        self._dropped = True


def _iterate(flow: _Flow) -> Iterator[Result]:
    arrived: SimpleQueue[list[Result]] = SimpleQueue()
    try:
        while flow.send(arrived.put):
            yield from flow.ready(arrived.get())
    finally:
        flow.drop()


async def _aiterate(flow: _Flow) -> AsyncIterator[Result]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[list[Result]] = asyncio.Queue()

    def notify(results: list[Result]) -> None:
        try:
            loop.call_soon_threadsafe(arrived.put_nowait, results)
        except RuntimeError:
            # The loop is closed, so no task waits.
            flow.drop()

    try:
        while flow.send(notify):
            for result in flow.ready(await arrived.get()):
                yield result
    finally:
        flow.drop()
