"""Sessions: an interpreter with its workspace, kept from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._handle import Handle
from ._options import RUN_OPTIONS, split
from ._outcome import (
    Completeness,
    Completion,
    HistoryEntry,
    Inspection,
    SessionInfo,
    WaitingCall,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from . import _belljar
    from ._files import SessionFiles
    from ._outcome import FileEntry
    from ._run import Run
    from ._runtime import Runtime
    from ._types import RestoreOptions, RunOptions


class Session(Handle):
    """An interpreter with its workspace. Runs go one after the other, in the order of their calls.

    Every method that waits has a twin with an ``a`` before its name for event loops.
    """

    __slots__ = ("_core", "_runtime")

    _core: _belljar.Session
    _runtime: Runtime

    def __init__(self, *_: object) -> None:
        raise TypeError("sessions come from Runtime.session")

    @property
    def id(self) -> str:
        """16 hexadecimal digits that nobody can guess."""
        return self._core.id

    @property
    def runtime(self) -> Runtime:
        """The runtime that it belongs to."""
        return self._runtime

    @property
    def info(self) -> SessionInfo:
        """What it is, and is doing."""
        return SessionInfo(self._core.info())

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code, and waits for it. Options as for :meth:`Runtime.run`, but for those that hold
        for the whole session. Every top-level expression is printed unless ``echo`` says otherwise.

        Ctrl-C interrupts the code, and the session keeps what it did.
        """
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._core.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """The same for an event loop. Cancelled, the session is in the state before the run."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._core.run(code, asked, extras, True))

    def interrupt(self) -> bool:
        """Interrupts the run that is under way, from another thread; whether there was one."""
        return self._core.interrupt()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a global variable, as itself; ``default`` where there is none."""
        found = self._core.get(name, False)
        return default if found is None else found[0]

    async def aget(self, name: str, default: Any = None) -> Any:
        """The same for an event loop."""
        found = await self._core.get(name, True)
        return default if found is None else found[0]

    def set(self, name: str, value: Any) -> None:
        """Sets a global variable."""
        self._core.set(name, value, False)

    async def aset(self, name: str, value: Any) -> None:
        """The same for an event loop."""
        await self._core.set(name, value, True)

    def evaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """The values of expressions under their names; one that raised is the exception
        :class:`GuestError` with what it said. What evaluating them does is undone."""
        return _values(self._core.evaluate(dict(expressions), False))

    async def aevaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """The same for an event loop."""
        return _values(await self._core.evaluate(dict(expressions), True))

    def complete(self, code: str, cursor: int | None = None) -> Completion:
        """What the name at the cursor, by default at the end, may become."""
        return Completion(self._core.complete(code, _cursor(code, cursor), False))

    async def acomplete(self, code: str, cursor: int | None = None) -> Completion:
        """The same for an event loop."""
        return Completion(await self._core.complete(code, _cursor(code, cursor), True))

    def inspect(
        self, code: str, cursor: int | None = None, *, detail: bool = False
    ) -> Inspection | None:
        """What is known of the name at the cursor; with ``detail`` its source too."""
        found = self._core.inspect(code, _cursor(code, cursor), detail, False)
        return None if found is None else Inspection(found)

    async def ainspect(
        self, code: str, cursor: int | None = None, *, detail: bool = False
    ) -> Inspection | None:
        """The same for an event loop."""
        found = await self._core.inspect(code, _cursor(code, cursor), detail, True)
        return None if found is None else Inspection(found)

    def is_complete(self, code: str) -> Completeness:
        """Whether code is ready to be run."""
        return Completeness(self._core.is_complete(code, False))

    async def ais_complete(self, code: str) -> Completeness:
        """The same for an event loop."""
        return Completeness(await self._core.is_complete(code, True))

    @property
    def files(self) -> SessionFiles:
        """The files of its workspace, to look at and to change without a run."""
        from ._files import SessionFiles

        return SessionFiles(self._core.files())

    def read(self, path: str) -> bytes:
        """The bytes of a file, by its path in an outcome. Those of a run in which the interpreter
        was lost can be read until the next run."""
        data: bytes = self._core.read(path, False)
        return data

    async def aread(self, path: str) -> bytes:
        """The same for an event loop."""
        data: bytes = await self._core.read(path, True)
        return data

    def copy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Copies the regular ones among files of an outcome to a directory; their paths there."""
        from pathlib import Path

        copied = self._core.copy_to([file.to_dict() for file in files], dir, False)
        return [Path(path) for path in copied]

    async def acopy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """The same for an event loop."""
        from pathlib import Path

        copied = await self._core.copy_to([file.to_dict() for file in files], dir, True)
        return [Path(path) for path in copied]

    def history(self) -> list[HistoryEntry]:
        """What it did, the latest last."""
        return [HistoryEntry(entry) for entry in self._core.history(False)]

    async def ahistory(self) -> list[HistoryEntry]:
        """The same for an event loop."""
        return [HistoryEntry(entry) for entry in await self._core.history(True)]

    def execution(self) -> int:
        """How many runs it is made of."""
        number: int = self._core.execution(False)
        return number

    async def aexecution(self) -> int:
        """The same for an event loop."""
        number: int = await self._core.execution(True)
        return number

    def rewind(self, execution: int) -> None:
        """Goes back to the state after run ``execution``, with 0 to the beginning. The runs after
        it are forgotten, their files too."""
        self._core.rewind(execution, False)

    async def arewind(self, execution: int) -> None:
        """The same for an event loop."""
        await self._core.rewind(execution, True)

    def rewind_keeping(self, execution: int) -> Session:
        """The same, and what is left behind goes on as a session of its own, which is returned."""
        return self._beside(self._core.rewind_keeping(execution, False))

    async def arewind_keeping(self, execution: int) -> Session:
        """The same for an event loop."""
        return self._beside(await self._core.rewind_keeping(execution, True))

    def reset(self) -> None:
        """Goes back to the beginning."""
        self.rewind(0)

    async def areset(self) -> None:
        """The same for an event loop."""
        await self.arewind(0)

    def fork(self) -> Session:
        """Another session with this state and this history; neither sees the other from then on."""
        return self._beside(self._core.fork(False))

    async def afork(self) -> Session:
        """The same for an event loop."""
        return self._beside(await self._core.fork(True))

    def checkpoint(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """Writes the session to a file, for :meth:`Runtime.restore`; without a path its bytes are
        returned. It holds everything that the code had in memory."""
        data: bytes | None = self._core.checkpoint(path, False)
        return data

    async def acheckpoint(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """The same for an event loop."""
        data: bytes | None = await self._core.checkpoint(path, True)
        return data

    def restore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """A session from a checkpoint, in the same runtime: :meth:`Runtime.restore`."""
        return self._runtime.restore(checkpoint, **options)

    async def arestore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """The same for an event loop."""
        return await self._runtime.arestore(checkpoint, **options)

    def snapshot(self, name: str) -> None:
        """Keeps its state under a name, from which :meth:`Runtime.session_from` starts others."""
        self._core.snapshot(name, False)

    async def asnapshot(self, name: str) -> None:
        """The same for an event loop."""
        await self._core.snapshot(name, True)

    def suspend(self) -> bool:
        """Puts it on the disk until its next run; False while it runs."""
        is_done: bool = self._core.suspend(False)
        return is_done

    async def asuspend(self) -> bool:
        """The same for an event loop."""
        is_done: bool = await self._core.suspend(True)
        return is_done

    def waiting(self) -> list[WaitingCall]:
        """The calls of deferred tools for which a run waits."""
        return [WaitingCall(call) for call in self._core.waiting(False)]

    async def awaiting(self) -> list[WaitingCall]:
        """The same for an event loop."""
        return [WaitingCall(call) for call in await self._core.waiting(True)]

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls for which a run waits, by their numbers, and goes on with the run. Answers
        are JSON; ``failed`` says of calls why they have none."""
        return _run(self, self._core.answer(answers_of(answers, failed), False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """The same for an event loop."""
        return _run(self, await self._core.answer(answers_of(answers, failed), True))

    @property
    def labels(self) -> dict[str, str]:
        """What the caller knows it by; the code does not see them."""
        return dict(self.info.labels)

    @labels.setter
    def labels(self, labels: Mapping[str, str]) -> None:
        self._core.set_labels(dict(labels))

    def extend_lease(self, seconds: float) -> bool:
        """Has its lease end so long from now; False if it has none."""
        return self._core.extend_lease(seconds)

    def close(self) -> None:
        """Stops what it runs, and frees what it holds. Calls after it are errors."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The last handle on it: nobody could use it any more.
        core = getattr(self, "_core", None)
        if core is not None:
            core.close()

    def __repr__(self) -> str:
        return f"<belljar.Session {self.id}>"

    def _beside(self, core: _belljar.Session) -> Session:
        return self._runtime._handle(core)


def made(core: _belljar.Session, runtime: Runtime) -> Session:
    """A handle on a session."""
    session = Session.__new__(Session)
    session._core = core
    session._runtime = runtime
    return session


class GuestError(Exception):
    """What an expression raised in the sandbox, as a text."""


def _run(session: Session, parts: tuple[Any, Any, Any]) -> Run:
    global _run
    from ._run import made

    def run_of(session: Session, parts: tuple[Any, Any, Any]) -> Run:
        return made(parts, session)

    _run = run_of
    return made(parts, session)


def _values(found: dict[str, tuple[Any, str | None]]) -> dict[str, Any]:
    return {
        name: value if raised is None else GuestError(raised)
        for name, (value, raised) in found.items()
    }


def _cursor(code: str, cursor: int | None) -> int:
    return len(code) if cursor is None else cursor


def answers_of(
    answers: Mapping[int, Any], failed: Mapping[int, str] | None
) -> list[tuple[int, Any, str | None]]:
    """Answers as the native half takes them."""
    given: list[tuple[int, Any, str | None]] = [(id, held, None) for id, held in answers.items()]
    given.extend((id, None, why) for id, why in (failed or {}).items())
    return given
