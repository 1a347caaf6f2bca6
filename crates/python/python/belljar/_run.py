"""A finished run: its outcome and its files."""

from __future__ import annotations

from ._notebook import Shown
from ._outcome import Outcome, reported

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from tempfile import TemporaryDirectory
    from typing import Any, Protocol

    from . import _belljar
    from ._outcome import DataFrameEntry, ErrorDetail, FileEntry, PlotEntry

    class Workspace(Protocol):
        """The files of a session, which are those of its runs."""

        def read(self, path: str) -> bytes: ...
        def copy_to(self, files: tuple[FileEntry, ...], dir: Path) -> list[Path]: ...


class Run(Shown):
    """A finished run: ``outcome``, and files, such as ``run["plots/plot_1.png"]`` as bytes.

    The files of a stateless run exist as long as this object. Files of a session's run belong to
    the session, and are read in their current state.
    """

    __slots__ = ("__weakref__", "_copies", "_files", "_session", "outcome")

    outcome: Outcome

    def __init__(self, *_: object) -> None:
        raise TypeError("runs come from Runtime.run and Session.run")

    @property
    def success(self) -> bool:
        """Whether the code ran without an error."""
        return self.outcome.success

    @property
    def result(self) -> Any:
        """The result, with the type that it has in the sandbox."""
        return self.outcome.result

    @property
    def stdout(self) -> str:
        """Everything written to standard output."""
        return self.outcome.stdout

    @property
    def stderr(self) -> str:
        """Tracebacks, warnings, and output to standard error."""
        return self.outcome.stderr

    @property
    def error(self) -> ErrorDetail | None:
        """The error, or None on success."""
        return self.outcome.error

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All new and changed files."""
        return self.outcome.files

    @property
    def plots(self) -> tuple[PlotEntry, ...]:
        """All figures captured or saved."""
        return self.outcome.plots

    @property
    def dataframes(self) -> tuple[DataFrameEntry, ...]:
        """All pandas objects among the global variables."""
        return self.outcome.dataframes

    def raise_for_error(self) -> Run:
        """Raises a :class:`RunError` if the code failed; otherwise returns this run."""
        if self.outcome.error is not None:
            from ._errors import RunError

            raise RunError(self.outcome)
        return self

    def __getitem__(self, path: str) -> bytes:
        """Returns the bytes of a file, by its path in the outcome."""
        if self._files is not None:
            return self._files.read(path)
        if self._session is None:
            raise _no_such_file(path)
        return self._session.read(path)

    def __contains__(self, path: object) -> bool:
        return any(file.path == path for file in self.outcome.files)

    def __iter__(self) -> Iterator[str]:
        """Iterates over the paths of the files."""
        return (file.path for file in self.outcome.files)

    def __len__(self) -> int:
        return len(self.outcome.files)

    def save(self, dir: str | os.PathLike[str]) -> list[Path]:
        """Copies every regular file to a directory, which is created if missing. Returns their
        paths.

        The guest chooses file names: existing files of the same name are replaced, but nothing is
        written outside the directory.
        """
        from pathlib import Path

        target = Path(dir)
        if self._files is not None:
            return [Path(copied) for copied in self._files.copy_to(target)]
        if self._session is None:
            target.mkdir(parents=True, exist_ok=True)
            return []
        return self._session.copy_to(self.outcome.files, target)

    def path(self, path: str) -> Path:
        """Copies a file to this machine and returns its path. Removed with this object."""
        from pathlib import Path
        from tempfile import TemporaryDirectory

        if self._copies is None:
            copies = TemporaryDirectory(prefix="belljar-")
            self.save(copies.name)
            object.__setattr__(self, "_copies", copies)
        assert self._copies is not None
        found = Path(self._copies.name, path)
        if path not in self or not found.is_file():
            raise _no_such_file(path)
        return found

    def to_openai(self, *, call_id: str | None = None) -> dict[str, Any]:
        """Converts to an item of OpenAI's Responses API, figures included."""
        from .convert import to_openai

        return to_openai(self.outcome.to_dict(), call_id=call_id, read=self.__getitem__)

    def to_anthropic(
        self, tool_use_id: str | None = None, *, file_ids: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Converts to a block of Anthropic's Messages API, figures included."""
        from .convert import to_anthropic

        document = self.outcome.to_dict()
        return to_anthropic(document, tool_use_id, file_ids=file_ids, read=self.__getitem__)

    def to_gemini(
        self, *, call_id: str | None = None, name: str | None = None
    ) -> list[dict[str, Any]]:
        """Converts to parts of Gemini's API, figures included."""
        from .convert import to_gemini

        document = self.outcome.to_dict()
        return to_gemini(document, call_id=call_id, name=name, read=self.__getitem__)

    def close(self) -> None:
        """Removes the files now, instead of with the object."""
        if self._files is not None:
            self._files.close()
        if self._copies is not None:
            self._copies.cleanup()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Run cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Run cannot be changed")

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Run has files of this process and cannot be pickled; its outcome can be")

    def __repr__(self) -> str:
        return repr(self.outcome).replace("Outcome(", "Run(", 1)

    if TYPE_CHECKING:
        _files: _belljar.Run | None
        _session: Workspace | None
        _copies: TemporaryDirectory[str] | None


def _no_such_file(path: str) -> Exception:
    from ._errors import make

    return make(f"the run left no file {path}", "no_such_file")


def made(parts: tuple[Any, Any, Any], session: Workspace | None = None) -> Run:
    """Makes a run from the native half."""
    report, typed, files = parts
    run = Run.__new__(Run)
    put = object.__setattr__
    put(run, "outcome", reported(report, typed))
    put(run, "_files", files)
    put(run, "_session", session)
    put(run, "_copies", None)
    return run
