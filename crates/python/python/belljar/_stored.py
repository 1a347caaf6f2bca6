"""Sessions kept in a store, which any process with access to the store can use."""

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
    from typing import Literal

    from typing_extensions import Self, Unpack

    from ._outcome import FileEntry
    from ._run import Run
    from ._runtime import Runtime
    from ._types import RunOptions, SessionOptions

    Purpose = Literal["look", "change", "run"]

# Options that belong to the process that creates a session and do not work in others.
_AT_HOME = ("client", "input", "labels", "lease", "mounts", "tools")


class StoredInfo(Record):
    """The store's record of a session. ``node`` is the current owner, ``used`` the time of the last
    change in seconds since 1970, ``about`` the caller's description.
    """

    __slots__ = ()
    id: str
    image: str
    execution: int
    node: str | None
    used: float
    about: dict[str, Any]


class StoredSessions(Handle):
    """A node of a store of sessions. A session is run by one process at a time, which can be any
    with access to the store.

    ``store`` is the path of a directory, or a URL: ``file:///DIR``, ``memory:``, and in a wheel
    built with the feature ``stores`` also ``s3://BUCKET/FOLDER``, ``az://`` and ``gs://``.
    ``runtime`` runs the sessions, by default the one of :func:`belljar.run`. ``name`` identifies
    this node; ``lease`` is how many seconds other nodes wait for this one without a sign of life,
    ``patience`` is how long this one waits for others.

    By default a run returns before its state is in the store. If the process dies right after that,
    the run is lost, and the next outcome says so. With ``durable`` a run returns after its state is
    in the store.
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
        self._core = _belljar.Stored.open(_here(runtime), _url(store), options, False)

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
        """Asynchronous variant."""
        if runtime is None:
            import asyncio

            from ._runtime import default_runtime

            runtime = await asyncio.to_thread(default_runtime)
        options = _node(name, lease, patience, durable)
        sessions = cls.__new__(cls)
        sessions._runtime = runtime
        sessions._core = await _belljar.Stored.open(_here(runtime), _url(store), options, True)
        return sessions

    @property
    def name(self) -> str:
        """The name of this node."""
        return self._core.name

    @property
    def runtime(self) -> Runtime:
        """The runtime that runs the sessions."""
        return self._runtime

    def create(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> StoredSession:
        """Creates a session in the store. ``about`` is a JSON description for later. Takes the
        options of :meth:`Runtime.session`, except those that belong to one process, such as tools,
        which are passed to each run.
        """
        check_options(options)
        return self.add(self._runtime.session(**options), about)

    async def acreate(
        self, about: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
    ) -> StoredSession:
        """Asynchronous variant."""
        check_options(options)
        return await self.aadd(await self._runtime.asession(**options), about)

    def add(self, session: Session, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Moves a session of this runtime into the store. The handle can no longer be used."""
        id = self._core.add(session._core, dict(about or {}), False)
        return self._added(session, id)

    async def aadd(self, session: Session, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Asynchronous variant."""
        id = await self._core.add(session._core, dict(about or {}), True)
        return self._added(session, id)

    def _added(self, session: Session, id: str) -> StoredSession:
        session._core = _gone("the session was put into a store")
        self._runtime._known.pop(id, None)
        return StoredSession(self, id)

    def session(self, id: str) -> StoredSession:
        """Returns a handle to the session with this id, without checking that it exists."""
        return StoredSession(self, id)

    def ids(self) -> list[str]:
        """Lists the ids of all sessions in the store."""
        return list(self._core.ids(False))

    async def aids(self) -> list[str]:
        """Asynchronous variant."""
        return list(await self._core.ids(True))

    def tidy(self, seconds: float = 3600) -> tuple[int, int]:
        """Removes files of dead processes, if older than this many seconds, and unused chunks.
        Returns the number of states and chunks removed. Call it occasionally, from one process or
        several.
        """
        states, chunks = self._core.tidy(seconds, False)
        return states, chunks

    async def atidy(self, seconds: float = 3600) -> tuple[int, int]:
        """Asynchronous variant."""
        states, chunks = await self._core.tidy(seconds, True)
        return states, chunks

    def sweep(self, seconds: float = 600) -> None:
        """Frees local copies of sessions not used for this long. The sessions stay in the store."""
        self._core.sweep(seconds, False)

    def settle(self) -> None:
        """Waits until all changes of this node are in the store."""
        self._core.settle(False)

    async def asettle(self) -> None:
        """Asynchronous variant."""
        await self._core.settle(True)

    @property
    def counts(self) -> dict[str, int]:
        """Counters of this node: sessions ``woken`` from the store, sessions ``found`` unchanged
        since the last use, states ``written``, sessions ``taken_over`` from dead processes, and
        sessions ``lost`` to others.
        """
        return self._core.counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.asettle()

    def __repr__(self) -> str:
        return f"<belljar.StoredSessions {self.name}>"


class StoredSession(Handle):
    """A session in a store. Each call acquires it, waiting while another process holds it, and
    releases it.

    Every blocking method has an asynchronous variant with the prefix ``a``.
    """

    __slots__ = ("_id", "_sessions")

    def __init__(self, sessions: StoredSessions, id: str) -> None:
        self._sessions = sessions
        self._id = id

    @property
    def id(self) -> str:
        """Identifies the session in any process that uses the store."""
        return self._id

    @property
    def sessions(self) -> StoredSessions:
        """The store node of this handle."""
        return self._sessions

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code: :meth:`Session.run`. If earlier changes were lost with a dead process, the
        outcome's ``restart_reason`` says so.
        """
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._core.run(self._id, code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Asynchronous variant. Cancelling it restores the state before the run."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._core.run(self._id, code, asked, extras, True))

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls that a run waits for, and resumes it: :meth:`Session.answer`."""
        given = answers_of(answers, failed)
        return _run(self, self._core.answer(self._id, given, False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """Asynchronous variant."""
        given = answers_of(answers, failed)
        return _run(self, await self._core.answer(self._id, given, True))

    def claim(self) -> Holding:
        """Holds the session for a ``with`` or ``async with`` block, as a :class:`Session` with all
        of its methods. Changes are written to the store at the end of the block::

            with stored.claim() as session:
                session.files.write("a.csv", data)
                session.run("df = pd.read_csv('a.csv')")
        """
        return Holding(self, "run")

    def _look(self) -> Holding:
        """Holds the session for a block that changes nothing. Nothing is written to the store."""
        return Holding(self, "look")

    def _change(self) -> Holding:
        return Holding(self, "change")

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a global variable, or ``default`` if it is not defined."""
        with self._look() as session:
            return session.get(name, default)

    async def aget(self, name: str, default: Any = None) -> Any:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.aget(name, default)

    def set(self, name: str, value: Any) -> None:
        """Sets a global variable."""
        with self._change() as session:
            session.set(name, value)

    async def aset(self, name: str, value: Any) -> None:
        """Asynchronous variant."""
        async with self._change() as session:
            await session.aset(name, value)

    def evaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Evaluates expressions: :meth:`Session.evaluate`."""
        with self._look() as session:
            return session.evaluate(expressions)

    async def aevaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.aevaluate(expressions)

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file in the workspace."""
        with self._look() as session:
            return session.read(path)

    async def aread(self, path: str) -> bytes:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.aread(path)

    def copy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Copies the regular files of an outcome to a directory. Returns their new paths."""
        with self._look() as session:
            return session.copy_to(files, dir)

    async def acopy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.acopy_to(files, dir)

    def history(self) -> list[HistoryEntry]:
        """The runs so far, the latest last."""
        with self._look() as session:
            return session.history()

    async def ahistory(self) -> list[HistoryEntry]:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.ahistory()

    def waiting(self) -> list[WaitingCall]:
        """Calls of deferred tools that the current run waits for."""
        with self._look() as session:
            return session.waiting()

    async def awaiting(self) -> list[WaitingCall]:
        """Asynchronous variant."""
        async with self._look() as session:
            return await session.awaiting()

    def rewind(self, execution: int) -> None:
        """Goes back to the state after run ``execution``: :meth:`Session.rewind`."""
        with self._change() as session:
            session.rewind(execution)

    async def arewind(self, execution: int) -> None:
        """Asynchronous variant."""
        async with self._change() as session:
            await session.arewind(execution)

    def fork(self, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Creates another session in the same store with this state and history."""
        with self._look() as session:
            other = session.fork()
        return self._sessions.add(other, about)

    async def afork(self, about: Mapping[str, Any] | None = None) -> StoredSession:
        """Asynchronous variant."""
        async with self._look() as session:
            other = await session.afork()
        return await self._sessions.aadd(other, about)

    def interrupt(self) -> bool:
        """Interrupts the current run, in any process. Returns whether there was one. In another
        process this takes up to a third of the lease.
        """
        is_done: bool = self._core.interrupt(self._id, False)
        return is_done

    async def ainterrupt(self) -> bool:
        """Asynchronous variant."""
        is_done: bool = await self._core.interrupt(self._id, True)
        return is_done

    @property
    def info(self) -> StoredInfo | None:
        """Returns the store's record of the session, or ``None``. Does not resume it."""
        found = self._core.look(self._id, False)
        return None if found is None else StoredInfo(found)

    async def ainfo(self) -> StoredInfo | None:
        """Asynchronous variant."""
        found = await self._core.look(self._id, True)
        return None if found is None else StoredInfo(found)

    def remove(self) -> None:
        """Removes the session from the store, interrupting any process that runs it."""
        self._core.remove(self._id, False)

    async def aremove(self) -> None:
        """Asynchronous variant."""
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
    """A session of a store while this process holds it. It cannot be closed."""

    __slots__ = ("_held_id", "_hold")

    _hold: _belljar.Hold
    _held_id: str

    @property
    def id(self) -> str:
        """Identifies the session in the store."""
        return self._held_id

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code, and waits for it: :meth:`Session.run`."""
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._hold.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Asynchronous variant."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._hold.run(code, asked, extras, True))

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls that a run waits for: :meth:`Session.answer`."""
        return _run(self, self._hold.answer(answers_of(answers, failed), False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """Asynchronous variant."""
        return _run(self, await self._hold.answer(answers_of(answers, failed), True))

    def close(self) -> None:
        """Does nothing: the session is released at the end of its block.
        :meth:`StoredSession.remove` removes it.
        """

    def __del__(self) -> None:
        # Its store keeps it.
        pass


class Holding:
    """Holds a session for a block. Created by :meth:`StoredSession.claim`."""

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
            raise RuntimeError("the session is held by another block: acquire it again")

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
    """Replaces the native half of a handle that can no longer be used."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def close(self) -> None:
        """Nothing to close."""

    drop = close

    def __getattr__(self, name: str) -> Any:
        raise make(self._why, "session.given_back", hint="Ask its store for it: StoredSession")


def _gone(why: str) -> Any:
    return _Gone(why)


def _url(store: str | os.PathLike[str]) -> str:
    import os

    if isinstance(store, str) and ":" in store.partition("/")[0]:
        return store
    return os.path.abspath(store)


def _here(runtime: Runtime) -> _belljar.Runtime:
    """The native half of a runtime."""
    core = runtime._core
    if not isinstance(core, _belljar.Runtime):
        raise TypeError(
            "a store needs a Runtime of this process: a server shares sessions with "
            "belljar serve --store"
        )
    return core


def _node(
    name: str | None, lease: float | None, patience: float | None, durable: bool
) -> dict[str, Any]:
    options = {"name": name, "lease": lease, "patience": patience, "durable": durable}
    return {name: value for name, value in options.items() if value is not None}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuses options that only work within one process."""
    for name in _AT_HOME:
        if options.get(name) is not None:
            hint = ": give it to its runs" if name in ("input", "tools") else ""
            raise TypeError(
                f"{name} belongs to one process, and a session of a store does not{hint}"
            )


def _run(session: Any, parts: tuple[Any, Any, Any]) -> Run:
    from ._run import made

    return made(parts, session)
