"""Sessions in a store that any free worker of a pool can run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from belljar import _options

from ._crew import Chunk
from ._travel import travelling
from ._worker import Deed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    import belljar
    from belljar._types import RunOptions

    from ._pool import Pool
    from ._result import Result

# Number of retries on another worker, for operations that are read-only or idempotent.
_RETRIES = 2


class PoolSession:
    """A session in the pool's store. Each call runs on any worker, which holds the session for that
    time. Calls from one pool are executed in order.

    A run returns when its state is in the store. It is never repeated: if the worker is lost, the
    result has a :class:`LostError` as its failure, and the next outcome of the session reports what
    was lost.
    """

    __slots__ = ("_id", "_pool")

    def __init__(self, pool: Pool, id: str) -> None:
        self._pool = pool
        self._id = id

    @property
    def id(self) -> str:
        """Identifies the session in any pool or process that uses the store."""
        return self._id

    def run(self, code: str, *, collect_bytes: int = 0, **options: Unpack[RunOptions]) -> Result:
        """Runs code in the session. Takes the options of :meth:`Pool.run`."""
        return _result(self._pool, self._running(code, collect_bytes, options))

    async def arun(
        self, code: str, *, collect_bytes: int = 0, **options: Unpack[RunOptions]
    ) -> Result:
        """Asynchronous variant. Cancelling it drops a call that has not started;
        a started one is completed.
        """
        return await _aresult(self._pool, self._running(code, collect_bytes, options))

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a global variable, or ``default`` if it is not defined."""
        return ask(self._pool, Deed("get", self._id, (name, default)), _RETRIES)

    async def aget(self, name: str, default: Any = None) -> Any:
        """Asynchronous variant."""
        return await aask(self._pool, Deed("get", self._id, (name, default)), _RETRIES)

    def set(self, name: str, value: Any) -> None:
        """Sets a global variable."""
        ask(self._pool, Deed("set", self._id, (name, value)), _RETRIES)

    async def aset(self, name: str, value: Any) -> None:
        """Asynchronous variant."""
        await aask(self._pool, Deed("set", self._id, (name, value)), _RETRIES)

    def evaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Evaluates expressions: :meth:`belljar.Session.evaluate`."""
        found: dict[str, Any] = ask(self._pool, self._evaluating(expressions), _RETRIES)
        return found

    async def aevaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Asynchronous variant."""
        found: dict[str, Any] = await aask(self._pool, self._evaluating(expressions), _RETRIES)
        return found

    def rewind(self, execution: int) -> None:
        """Goes back to the state after run ``execution``."""
        ask(self._pool, Deed("rewind", self._id, (execution,)))

    async def arewind(self, execution: int) -> None:
        """Asynchronous variant."""
        await aask(self._pool, Deed("rewind", self._id, (execution,)))

    def fork(self, about: Mapping[str, Any] | None = None) -> PoolSession:
        """Creates another session in the same store with this state and history."""
        return PoolSession(self._pool, ask(self._pool, Deed("fork", self._id, (about,))))

    async def afork(self, about: Mapping[str, Any] | None = None) -> PoolSession:
        """Asynchronous variant."""
        return PoolSession(self._pool, await aask(self._pool, Deed("fork", self._id, (about,))))

    @property
    def info(self) -> belljar.StoredInfo | None:
        """Returns the store's record of the session, or ``None``. Does not resume it."""
        found: belljar.StoredInfo | None = ask(self._pool, Deed("info", self._id), _RETRIES)
        return found

    async def ainfo(self) -> belljar.StoredInfo | None:
        """Asynchronous variant."""
        found: belljar.StoredInfo | None = await aask(self._pool, Deed("info", self._id), _RETRIES)
        return found

    def remove(self) -> None:
        """Removes it from the store."""
        ask(self._pool, Deed("remove", self._id), _RETRIES)

    async def aremove(self) -> None:
        """Asynchronous variant."""
        await aask(self._pool, Deed("remove", self._id), _RETRIES)

    def _running(self, code: str, collect_bytes: int, options: Any) -> Deed:
        if collect_bytes < 0:
            raise ValueError("collect_bytes is not negative")
        held = travelling(options, "run", _options.RUN_OPTIONS)
        return Deed("run", self._id, (code,), held, collect_bytes)

    def _evaluating(self, expressions: Mapping[str, str]) -> Deed:
        return Deed("evaluate", self._id, (dict(expressions),))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PoolSession):
            return NotImplemented
        return self._id == other._id and self._pool is other._pool

    def __hash__(self) -> int:
        return hash(self._id)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PoolSession belongs to its pool and cannot be pickled; its id can be")

    def __repr__(self) -> str:
        return f"<belljar.ray.PoolSession {self._id}>"


def ask(pool: Pool, deed: Deed, retries: int = 0) -> Any:
    """Returns a worker's answer, or raises its exception."""
    return _value(_result(pool, deed, retries))


async def aask(pool: Pool, deed: Deed, retries: int = 0) -> Any:
    """Asynchronous variant."""
    return _value(await _aresult(pool, deed, retries))


def _value(result: Result) -> Any:
    if result.failure is not None:
        raise result.failure
    return result._value


def _result(pool: Pool, deed: Deed, retries: int = 0) -> Result:
    arrived: SimpleQueue[list[Result]] = SimpleQueue()
    dropped: list[bool] = []
    _submit(pool, deed, Chunk(deed, [(0, None)], retries, arrived.put, lambda: bool(dropped)))
    try:
        [result] = arrived.get()
    finally:
        dropped.append(True)
    return result


async def _aresult(pool: Pool, deed: Deed, retries: int = 0) -> Result:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[list[Result]] = asyncio.Queue()
    dropped: list[bool] = []

    def notify(results: list[Result]) -> None:
        try:
            loop.call_soon_threadsafe(arrived.put_nowait, results)
        except RuntimeError:
            # The loop is closed, so no task waits.
            dropped.append(True)

    _submit(pool, deed, Chunk(deed, [(0, None)], retries, notify, lambda: bool(dropped)))
    try:
        [result] = await arrived.get()
    finally:
        dropped.append(True)
    return result


def _submit(pool: Pool, deed: Deed, chunk: Chunk) -> None:
    pool._crew.check_process()
    if deed.id is None:
        pool._crew.submit(chunk)
    else:
        pool._crew.submit_in_turn(deed.id, chunk)
