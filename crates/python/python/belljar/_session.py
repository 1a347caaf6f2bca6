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

    from typing_extensions import Self, Unpack

    from . import _belljar
    from ._files import SessionFiles
    from ._outcome import FileEntry
    from ._run import Run
    from ._runtime import Runtime
    from ._types import RestoreOptions, RunOptions


class Session(Handle):
    """An interpreter with its workspace. Runs are executed one after the other, in order of their
    calls.

    Every blocking method has an asynchronous variant with the prefix ``a``.
    """

    __slots__ = ("_core", "_runtime")

    _core: _belljar.Session
    _runtime: Runtime

    def __init__(self, *_: object) -> None:
        raise TypeError("sessions come from Runtime.session")

    @property
    def id(self) -> str:
        """16 random hexadecimal digits."""
        return self._core.id

    @property
    def runtime(self) -> Runtime:
        """The runtime of the session."""
        return self._runtime

    @property
    def info(self) -> SessionInfo:
        """The session's properties and current status."""
        return SessionInfo(self._core.info())

    def run(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Runs code, and waits for it. Takes the options of :meth:`Runtime.run`, except those that
        apply to the whole session. Prints every top-level expression unless ``echo`` is given.

        Ctrl-C interrupts the code, and the session keeps its effects.
        """
        asked, extras = split(options, "run", RUN_OPTIONS)
        return _run(self, self._core.run(code, asked, extras, False))

    async def arun(self, code: str, **options: Unpack[RunOptions]) -> Run:
        """Asynchronous variant. Cancelling it restores the state before the run."""
        asked, extras = split(options, "arun", RUN_OPTIONS)
        return _run(self, await self._core.run(code, asked, extras, True))

    def interrupt(self) -> bool:
        """Interrupts the current run from another thread. Returns whether there was one."""
        return self._core.interrupt()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a global variable, or ``default`` if it is not defined."""
        found = self._core.get(name, False)
        return default if found is None else found[0]

    async def aget(self, name: str, default: Any = None) -> Any:
        """Asynchronous variant."""
        found = await self._core.get(name, True)
        return default if found is None else found[0]

    def set(self, name: str, value: Any) -> None:
        """Sets a global variable."""
        self._core.set(name, value, False)

    async def aset(self, name: str, value: Any) -> None:
        """Asynchronous variant."""
        await self._core.set(name, value, True)

    def evaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Evaluates expressions by name. The value of an expression that raised is a
        :class:`GuestError` with the message. Side effects are undone.
        """
        return _values(self._core.evaluate(dict(expressions), False))

    async def aevaluate(self, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Asynchronous variant."""
        return _values(await self._core.evaluate(dict(expressions), True))

    def complete(self, code: str, cursor: int | None = None) -> Completion:
        """Completes the name at the cursor, which is by default at the end."""
        return Completion(self._core.complete(code, _cursor(code, cursor), False))

    async def acomplete(self, code: str, cursor: int | None = None) -> Completion:
        """Asynchronous variant."""
        return Completion(await self._core.complete(code, _cursor(code, cursor), True))

    def inspect(
        self, code: str, cursor: int | None = None, *, detail: bool = False
    ) -> Inspection | None:
        """Describes the object whose name is at the cursor; with ``detail`` includes its source."""
        found = self._core.inspect(code, _cursor(code, cursor), detail, False)
        return None if found is None else Inspection(found)

    async def ainspect(
        self, code: str, cursor: int | None = None, *, detail: bool = False
    ) -> Inspection | None:
        """Asynchronous variant."""
        found = await self._core.inspect(code, _cursor(code, cursor), detail, True)
        return None if found is None else Inspection(found)

    def is_complete(self, code: str) -> Completeness:
        """Checks whether code is complete."""
        return Completeness(self._core.is_complete(code, False))

    async def ais_complete(self, code: str) -> Completeness:
        """Asynchronous variant."""
        return Completeness(await self._core.is_complete(code, True))

    @property
    def files(self) -> SessionFiles:
        """The files of the workspace, to read and change without a run."""
        from ._files import SessionFiles

        return SessionFiles(self._core.files())

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file, by its path in an outcome. Files of a run in which the
        interpreter was lost can be read until the next run.
        """
        data: bytes = self._core.read(path, False)
        return data

    async def aread(self, path: str) -> bytes:
        """Asynchronous variant."""
        data: bytes = await self._core.read(path, True)
        return data

    def copy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Copies the regular files of an outcome to a directory. Returns their new paths."""
        from pathlib import Path

        copied = self._core.copy_to([file.to_dict() for file in files], dir, False)
        return [Path(path) for path in copied]

    async def acopy_to(self, files: Iterable[FileEntry], dir: str | os.PathLike[str]) -> list[Path]:
        """Asynchronous variant."""
        from pathlib import Path

        copied = await self._core.copy_to([file.to_dict() for file in files], dir, True)
        return [Path(path) for path in copied]

    def history(self) -> list[HistoryEntry]:
        """The runs so far, the latest last."""
        return [HistoryEntry(entry) for entry in self._core.history(False)]

    async def ahistory(self) -> list[HistoryEntry]:
        """Asynchronous variant."""
        return [HistoryEntry(entry) for entry in await self._core.history(True)]

    def execution(self) -> int:
        """Number of runs so far."""
        number: int = self._core.execution(False)
        return number

    async def aexecution(self) -> int:
        """Asynchronous variant."""
        number: int = await self._core.execution(True)
        return number

    def rewind(self, execution: int) -> None:
        """Goes back to the state after run ``execution``, or to the beginning with 0. Discards
        later runs with their files.
        """
        self._core.rewind(execution, False)

    async def arewind(self, execution: int) -> None:
        """Asynchronous variant."""
        await self._core.rewind(execution, True)

    def rewind_keeping(self, execution: int) -> Session:
        """Goes back, but returns the abandoned state as a new session."""
        return self._beside(self._core.rewind_keeping(execution, False))

    async def arewind_keeping(self, execution: int) -> Session:
        """Asynchronous variant."""
        return self._beside(await self._core.rewind_keeping(execution, True))

    def reset(self) -> None:
        """Goes back to the beginning."""
        self.rewind(0)

    async def areset(self) -> None:
        """Asynchronous variant."""
        await self.arewind(0)

    def fork(self) -> Session:
        """Creates an independent session with this state and history."""
        return self._beside(self._core.fork(False))

    async def afork(self) -> Session:
        """Asynchronous variant."""
        return self._beside(await self._core.fork(True))

    def checkpoint(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """Writes the session to a file for :meth:`Runtime.restore`, or returns its bytes if no path
        is given. The checkpoint contains all of the code's memory.
        """
        data: bytes | None = self._core.checkpoint(path, False)
        return data

    async def acheckpoint(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """Asynchronous variant."""
        data: bytes | None = await self._core.checkpoint(path, True)
        return data

    def restore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """Restores a session from a checkpoint in the same runtime: :meth:`Runtime.restore`."""
        return self._runtime.restore(checkpoint, **options)

    async def arestore(
        self, checkpoint: str | os.PathLike[str] | bytes, **options: Unpack[RestoreOptions]
    ) -> Session:
        """Asynchronous variant."""
        return await self._runtime.arestore(checkpoint, **options)

    def snapshot(self, name: str) -> None:
        """Saves the state under a name, for :meth:`Runtime.session_from`."""
        self._core.snapshot(name, False)

    async def asnapshot(self, name: str) -> None:
        """Asynchronous variant."""
        await self._core.snapshot(name, True)

    def suspend(self) -> bool:
        """Moves the session to disk until its next run. Returns False while it is running."""
        is_done: bool = self._core.suspend(False)
        return is_done

    async def asuspend(self) -> bool:
        """Asynchronous variant."""
        is_done: bool = await self._core.suspend(True)
        return is_done

    def waiting(self) -> list[WaitingCall]:
        """Calls of deferred tools that the current run waits for."""
        return [WaitingCall(call) for call in self._core.waiting(False)]

    async def awaiting(self) -> list[WaitingCall]:
        """Asynchronous variant."""
        return [WaitingCall(call) for call in await self._core.waiting(True)]

    def answer(self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None) -> Run:
        """Answers calls that a run waits for, by their numbers, and resumes the run. Answers are
        JSON; ``failed`` has the error messages of calls that failed.
        """
        return _run(self, self._core.answer(answers_of(answers, failed), False))

    async def aanswer(
        self, answers: Mapping[int, Any], *, failed: Mapping[int, str] | None = None
    ) -> Run:
        """Asynchronous variant."""
        return _run(self, await self._core.answer(answers_of(answers, failed), True))

    @property
    def labels(self) -> dict[str, str]:
        """The caller's labels, which the code cannot see."""
        return dict(self.info.labels)

    @labels.setter
    def labels(self, labels: Mapping[str, str]) -> None:
        self._core.set_labels(dict(labels))

    def extend_lease(self, seconds: float) -> bool:
        """Renews the lease to end in this many seconds. Returns False if there is no lease."""
        return self._core.extend_lease(seconds)

    def close(self) -> None:
        """Stops the current run and frees all resources. Later calls raise an error."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The last handle is gone, so the session can no longer be used.
        core = getattr(self, "_core", None)
        if core is not None:
            getattr(core, "drop", core.close)()

    def __repr__(self) -> str:
        return f"<belljar.Session {self.id}>"

    def _beside(self, core: _belljar.Session) -> Session:
        return self._runtime._handle(core)


def made(core: _belljar.Session, runtime: Runtime) -> Session:
    """Makes a handle to a session."""
    session = Session.__new__(Session)
    session._core = core
    session._runtime = runtime
    return session


class GuestError(Exception):
    """The text of an exception that an expression raised in the sandbox."""


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
    """Converts answers for the native half."""
    given: list[tuple[int, Any, str | None]] = [(id, held, None) for id, held in answers.items()]
    given.extend((id, None, why) for id, why in (failed or {}).items())
    return given
