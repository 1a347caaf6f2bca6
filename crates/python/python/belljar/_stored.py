"""Sessions that live in a store, and that any process finds which has the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _belljar
from ._errors import make
from ._handle import Handle
from ._options import RUN_OPTIONS, split
from ._outcome import HistoryEntry, Record, WaitingCall
from ._session import Session, answers_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Self, Unpack

    from ._outcome import FileEntry
    from ._run import Run
    from ._runtime import Runtime
    from ._types import RunOptions, SessionOptions

    Purpose = Literal["look", "change", "run"]

# What belongs to the process that makes a session, and would be missing wherever it is woken.
_AT_HOME = ("client", "input", "labels", "lease", "mounts", "tools")


class StoredInfo(Record):
    """What a store says of a session. ``node`` is who has it just now, ``used`` the seconds since
    1970 at its last change, ``about`` what was given with it."""

    __slots__ = ()
    id: str
    image: str
    execution: int
    node: str | None
    used: float
    about: dict[str, Any]


class StoredSessions(Handle):
    """The sessions of a store, as this process has them: each is run by one process at a time, and
    by any that has the store.

    ``store`` is the path of a directory, or a URL: ``file:///DIR``, ``memory:``, and in a wheel
    built with the feature ``stores`` also ``s3://BUCKET/FOLDER``, ``az://`` and ``gs://``.
    ``runtime`` runs what is run here, by default the one of :func:`belljar.run`. ``name`` is what
    others call this process, ``lease`` for how many seconds they wait for it while it gives no sign
    of life, and ``patience`` for how long it waits for them.

    A run is answered before its state is written: a process that dies a moment later takes it with
    it, which the next outcome says. With ``durable`` it is answered when its state is in the store.
    """

    __slots__ = ("_core", "_runtime")

    _core: _belljar.Stored
    _runtime: Runtime

    def __init__(
        self,
        store: str | os.PathLike[str],
        runtime: Runtime | None = None,
        *,
        name: str | None = None,
        lease: float | None = None,
        patience: float | None = None,
        durable: bool = False,
    ) -> None:
        if runtime is None:
            from ._runtime import default_runtime

            runtime = default_runtime()
        options = _node(name, lease, patience, durable)
        self._runtime = runtime
        self._core = _belljar.Stored.open(runtime._core, _url(store), options, False)

    @classmethod
    async def aopen(
        cls,
        store: str | os.PathLike[str],
        runtime: Runtime | None = None,
        *,
        name: str | None = None,
        lease: float | None = None,
        patience: float | None = None,
        durable: bool = False,
    ) -> Self:
        """The same for an event loop."""
        if runtime is None:
            import asyncio

            from ._runtime import default_runtime

            runtime = await asyncio.to_thread(default_runtime)
        options = _node(name, lease, patience, durable)
        sessions = cls.__new__(cls)
        sessions._runtime = runtime
        sessions._core = await _belljar.Stored.open(runtime._core, _url(store), options, True)
        return sessions

    @property
    def name(self) -> str:
        """What other processes call this one."""
        return self._core.name

    @property
    def runtime(self) -> Runtime:
        """What runs here."""
        return self._runtime

    def create(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> StoredSession:
        """Makes a session and puts it into the store. ``about`` is what is to be known of it, as
        JSON. Options are those of :meth:`Runtime.session`, but for what belongs to one process:
        tools and the like are given to each run."""
        check_options(options)
        return self.add(self._runtime.session(**options), about)

    async def acreate(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> StoredSession:
        """The same for an event loop."""
        check_options(options)
        return await self.aadd(await self._runtime.asession(**options), about)

    def add(self, session: Session, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Puts a session of this runtime into the store. It is the store's from then on, and the
        handle that was given is of no more use."""
        id = self._core.add(session._core, dict(about or {}), False)
        return self._added(session, id)

    async def aadd(self, session: Session, about: Mapping[str, Any] | None = None) -> StoredSession:
        """The same for an event loop."""
        id = await self._core.add(session._core, dict(about or {}), True)
        return self._added(session, id)

    def _added(self, session: Session, id: str) -> StoredSession:
        session._core = _gone("the session was put into a store")
        self._runtime._known.pop(id, None)
        return StoredSession(self, id)

    def session(self, id: str) -> StoredSession:
        """A handle on the session with that id. The store is not asked whether it has one."""
        return StoredSession(self, id)

    def ids(self) -> list[str]:
        """The ids of all sessions in the store."""
        return list(self._core.ids(False))

    async def aids(self) -> list[str]:
        """The same for an event loop."""
        return list(await self._core.ids(True))

    def tidy(self, seconds: float = 3600) -> tuple[int, int]:
        """Removes what processes left that died, if it is older than so many seconds, and chunks
        that no state names any more: how many states and chunks. To be called now and then, by one
        process or several."""
        states, chunks = self._core.tidy(seconds, False)
        return states, chunks

    async def atidy(self, seconds: float = 3600) -> tuple[int, int]:
        """The same for an event loop."""
        states, chunks = await self._core.tidy(seconds, True)
        return states, chunks

    def sweep(self, seconds: float = 600) -> None:
        """Gives up what this process keeps of sessions that it has not used for so long. The store
        has them."""
        self._core.sweep(seconds, False)

    def settle(self) -> None:
        """Waits until everything is in the store that was done here."""
        self._core.settle(False)

    async def asettle(self) -> None:
        """The same for an event loop."""
        await self._core.settle(True)

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions this process has ``woken`` from the store and ``found`` as it had left
        them, states it has ``written``, sessions it has ``taken_over`` from processes that were
        gone, and ``lost`` to others."""
        return self._core.counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.asettle()

    def __repr__(self) -> str:
        return f"<belljar.StoredSessions {self.name}>"


class StoredSession(Handle):
    """A session of a store. It belongs to nobody: each call takes it, once no other process has it,
    and gives it back.

    Every method that waits has a twin with an ``a`` before its name for event loops.
    """

    __slots__ = ("_id", "_sessions")

    def __init__(self, sessions: StoredSessions, id: str) -> None:
        self._sessions = sessions
        self._id = id

    @property
    def id(self) -> str:
        """What it is found by, from any process that has the store."""
        return self._id

    @property
    def sessions(self) -> StoredSessions:
        """The sessions of its store."""
        return self._sessions

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code in it: :meth:`Session.run`. What was lost before, with a process that is gone,
        is in the outcome's ``restart_reason``."""
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._core.run(self._id, code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """The same for an event loop. Cancelled, the session is in the state before the run."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._core.run(self._id, code, asked, extras, True))

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls for which a run waits, and goes on with it: :meth:`Session.answer`."""
        given = answers_of(answers, failed)
        return _run(self, self._core.answer(self._id, given, False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """The same for an event loop."""
        given = answers_of(answers, failed)
        return _run(self, await self._core.answer(self._id, given, True))

    def claim(self) -> Holding:
        """Takes it for a ``with`` or ``async with`` block, in which it is a :class:`Session` with
        all that this can do. What is done in the block is in the store at its end, and not before::

            with stored.claim() as session:
                session.files.write("a.csv", data)
                session.run("df = pd.read_csv('a.csv')")
        """
        return Holding(self, "run")

    def _look(self) -> Holding:
        """Keeps it as it is for a block that changes nothing. Nothing is written to the store."""
        return Holding(self, "look")

    def _change(self) -> Holding:
        return Holding(self, "change")

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a global variable, as itself; ``default`` where there is none."""
        with self._look() as session:
            return session.get(name, default)

    async def aget(self, name: str, default: Any = None) -> Any:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.aget(name, default)

    def set(self, name: str, value: Any) -> None:
        """Sets a global variable."""
        with self._change() as session:
            session.set(name, value)

    async def aset(self, name: str, value: Any) -> None:
        """The same for an event loop."""
        async with self._change() as session:
            await session.aset(name, value)

    def evaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """The values of expressions: :meth:`Session.evaluate`."""
        with self._look() as session:
            return session.evaluate(expressions)

    async def aevaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.aevaluate(expressions)

    def read(self, path: str) -> bytes:
        """The bytes of a file in its workspace."""
        with self._look() as session:
            return session.read(path)

    async def aread(self, path: str) -> bytes:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.aread(path)

    def copy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Copies the regular ones among files of an outcome to a directory; their paths there."""
        with self._look() as session:
            return session.copy_to(files, dir)

    async def acopy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.acopy_to(files, dir)

    def history(self) -> list[HistoryEntry]:
        """What it did, the latest last."""
        with self._look() as session:
            return session.history()

    async def ahistory(self) -> list[HistoryEntry]:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.ahistory()

    def waiting(self) -> list[WaitingCall]:
        """The calls of deferred tools for which a run waits."""
        with self._look() as session:
            return session.waiting()

    async def awaiting(self) -> list[WaitingCall]:
        """The same for an event loop."""
        async with self._look() as session:
            return await session.awaiting()

    def rewind(self, execution: int) -> None:
        """Goes back to the state after run ``execution``: :meth:`Session.rewind`."""
        with self._change() as session:
            session.rewind(execution)

    async def arewind(self, execution: int) -> None:
        """The same for an event loop."""
        async with self._change() as session:
            await session.arewind(execution)

    def fork(self, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Another session in the same store with this state and this history."""
        with self._look() as session:
            other = session.fork()
        return self._sessions.add(other, about)

    async def afork(self, about: Mapping[str, Any] | None = None) -> StoredSession:
        """The same for an event loop."""
        async with self._look() as session:
            other = await session.afork()
        return await self._sessions.aadd(other, about)

    def interrupt(self) -> bool:
        """Interrupts the run that is under way, wherever it is; whether there was one. In another
        process within a third of its lease."""
        is_done: bool = self._core.interrupt(self._id, False)
        return is_done

    async def ainterrupt(self) -> bool:
        """The same for an event loop."""
        is_done: bool = await self._core.interrupt(self._id, True)
        return is_done

    @property
    def info(self) -> StoredInfo | None:
        """What the store says of it, or None where there is no such session. It is not woken."""
        found = self._core.look(self._id, False)
        return None if found is None else StoredInfo(found)

    async def ainfo(self) -> StoredInfo | None:
        """The same for an event loop."""
        found = await self._core.look(self._id, True)
        return None if found is None else StoredInfo(found)

    def remove(self) -> None:
        """Removes it from the store, whoever has it; what runs in it is interrupted."""
        self._core.remove(self._id, False)

    async def aremove(self) -> None:
        """The same for an event loop."""
        await self._core.remove(self._id, True)

    @property
    def _core(self) -> _belljar.Stored:
        return self._sessions._core

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredSession):
            return NotImplemented
        return self._id == other._id and self._sessions is other._sessions

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<belljar.StoredSession {self._id}>"


class HeldSession(Session):
    """A session of a store, while this process has it. Its store keeps it: nothing closes it."""

    __slots__ = ("_held_id", "_hold")

    _hold: _belljar.Hold
    _held_id: str

    @property
    def id(self) -> str:
        """What it is found by in its store."""
        return self._held_id

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code, and waits for it: :meth:`Session.run`."""
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._hold.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """The same for an event loop."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._hold.run(code, asked, extras, True))

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls for which a run waits: :meth:`Session.answer`."""
        return _run(self, self._hold.answer(answers_of(answers, failed), False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """The same for an event loop."""
        return _run(self, await self._hold.answer(answers_of(answers, failed), True))

    def close(self) -> None:
        """It is given back at the end of its block. :meth:`StoredSession.remove` removes it."""

    def __del__(self) -> None:
        # Its store keeps it.
        pass


class Holding:
    """A session of a store for the time of a block. Made by :meth:`StoredSession.claim`."""

    __slots__ = ("_purpose", "_session", "_stored")

    _session: HeldSession | None

    def __init__(self, stored: StoredSession, purpose: Purpose) -> None:
        self._stored = stored
        self._purpose = purpose
        self._session = None

    def __enter__(self) -> HeldSession:
        self._check()
        return self._begin(self._stored._core.take(self._stored._id, self._purpose, False))

    async def __aenter__(self) -> HeldSession:
        self._check()
        return self._begin(await self._stored._core.take(self._stored._id, self._purpose, True))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        hold = self._end()
        hold.release(True, False)

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        hold = self._end()
        await hold.release(True, True)

    def _check(self) -> None:
        if self._session is not None:
            raise RuntimeError("the session is held by another block: ask for it once more")

    def _begin(self, hold: _belljar.Hold) -> HeldSession:
        session = HeldSession.__new__(HeldSession)
        session._core = hold.session()
        session._hold = hold
        session._held_id = self._stored._id
        session._runtime = self._stored._sessions._runtime
        self._session = session
        return session

    def _end(self) -> _belljar.Hold:
        session, self._session = self._session, None
        assert session is not None
        hold = session._hold
        session._core = session._hold = _gone("the session was given back to its store")
        return hold


class _Gone:
    """Stands where the native half of a handle was that is of no more use."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def close(self) -> None:
        """There is nothing to close any more."""

    def __getattr__(self, name: str) -> Any:
        raise make(self._why, "session.given_back", hint="Ask its store for it: StoredSession")


def _gone(why: str) -> Any:
    return _Gone(why)


def _url(store: str | os.PathLike[str]) -> str:
    import os

    if isinstance(store, str) and ":" in store.partition("/")[0]:
        return store
    return os.path.abspath(store)


def _node(
    name: str | None, lease: float | None, patience: float | None, durable: bool
) -> dict[str, Any]:
    options = {"name": name, "lease": lease, "patience": patience, "durable": durable}
    return {name: value for name, value in options.items() if value is not None}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuses options that hold in one process only."""
    for name in _AT_HOME:
        if options.get(name) is not None:
            hint = ": give it to its runs" if name in ("input", "tools") else ""
            raise TypeError(
                f"{name} belongs to one process, and a session of a store to none{hint}"
            )


def _run(session: Any, parts: tuple[Any, Any, Any]) -> Run:
    from ._run import made

    return made(parts, session)
