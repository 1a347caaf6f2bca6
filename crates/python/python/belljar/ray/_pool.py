"""Workers of a cluster, and code that is mapped over them."""

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
from ._worker import Deed, Job

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from belljar._types import RunOptions, SessionOptions, Settings

__all__ = ["Pool", "WorkerInfo"]

# Handlers that belong to the caller's process, which runs elsewhere cannot call.
_AT_HOME = ("input", "on_event")
# How much a map reads ahead of what it yields, for each worker.
_CHUNKS_AHEAD = 4


class Pool:
    """Workers in a cluster. Any thread and any event loop may use it.

    ``workers`` says how many (by default as many as the cluster has room for), ``num_cpus`` what
    each takes up; ``actor_options`` are other options of Ray's actors (``memory``, ``resources``,
    ``scheduling_strategy``, ``runtime_env``). ``image`` is made ready in each before its first run,
    and what runs start from; without it they choose by their imports. ``settings`` are those of
    :class:`belljar.Runtime`. ``store`` and ``lease`` are those of :class:`belljar.StoredSessions`:
    where sessions live, so that any worker goes on with them.

    Where there is no connection to a cluster yet, ``ray.init()`` makes one. The workers start in
    the background: what keeps them from it is the failure of what they had to do.
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
        # Not the pool's own method, which would keep it alive.
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
        """Runs code once for each input; a :class:`Result` for each, in their order.

        The code finds its input in ``variable``; with None an input is a mapping, of the names of
        variables to their values. ``ordered=False`` yields results as they come. What a worker had
        when it was lost is begun again up to ``retries`` times. ``chunk`` inputs travel together,
        which pays where runs take no more than a millisecond. ``collect_bytes`` of files come with
        each result. Further options are those of :meth:`belljar.Runtime.run`.

        Inputs are read as they are needed. An iterator that is closed drops what has not begun.
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
        """The same for ``async for``."""
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
        """Runs code once, on some worker."""
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
        """The same for an event loop."""
        flow = self._flow(code, [{}], None, retries, 1, collect_bytes, True, options)
        return await _aiterate(flow).__anext__()

    def create(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> PoolSession:
        """Makes a session in the pool's store, on some worker. Options are those of
        :meth:`belljar.StoredSessions.create`; its image is the pool's unless another is named."""
        id: str = ask(self, self._creating(about, options))
        return PoolSession(self, id)

    async def acreate(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> PoolSession:
        """The same for an event loop."""
        id: str = await aask(self, self._creating(about, options))
        return PoolSession(self, id)

    def session(self, id: str) -> PoolSession:
        """A handle on the session with that id in the pool's store, which any worker goes on with.
        The store is not asked whether it has one."""
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
        """The workers that are up."""
        return self._crew.workers()

    def close(self) -> None:
        """Ends the workers, and what they do. What still waits fails with a ClosedError."""
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


def travelling(
    options: Mapping[str, Any], of: str = "map", known: frozenset[str] = _options.RUN_OPTIONS
) -> dict[str, Any]:
    """Options as another machine can use them: files of this one are read."""
    held = {name: value for name, value in options.items() if value is not None}
    for name in held:
        if name not in known:
            raise TypeError(_options.unknown(of, name, known))
        if name in _AT_HOME:
            raise TypeError(f"{name} is a function of this process, which a worker cannot call")
    if "files" in held:
        held["files"] = {path: _content(value) for path, value in held["files"].items()}
    return held


def _content(value: Any) -> str | bytes:
    content = _options.content(value)
    if isinstance(content, str):
        return content
    if hasattr(content, "__fspath__"):
        with open(os.fspath(content), "rb") as file:
            return file.read()
    return bytes(content)


class _Flow:
    """The inputs of one map on their way out, and the results on theirs back."""

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
        # Held, since with its pool what it does would end.
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
        """Sends what there is room for; whether results are still to come."""
        if self._sent == 0:
            # Once for all inputs, and not with each of them.
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
        """Those of the results, and of earlier ones, whose turn it is."""
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
        """Nothing more is wanted."""
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
            # The loop is closed: nobody waits.
            flow.drop()

    try:
        while flow.send(notify):
            for result in flow.ready(await arrived.get()):
                yield result
    finally:
        flow.drop()
