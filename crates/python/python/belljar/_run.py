"""A finished run: its outcome, and the files that it left."""

from __future__ import annotations

from ._outcome import Outcome, reported

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from tempfile import TemporaryDirectory
    from typing import Any

    from . import _belljar
    from ._outcome import DataFrameEntry, ErrorDetail, FileEntry, PlotEntry
    from ._session import Session


class Run:
    """What a run did, in ``outcome``, and its files: ``run["plots/plot_1.png"]`` is their bytes.

    The files of a run of its own are there as long as this object is; those of a session's run are
    the session's, as they are when they are read.
    """

    __slots__ = ("__weakref__", "_copies", "_files", "_session", "outcome")

    outcome: Outcome

    def __init__(self, *_: object) -> None:
        raise TypeError("runs come from Runtime.run and Session.run")

    @property
    def success(self) -> bool:
        """Whether the code ran to its end."""
        return self.outcome.success

    @property
    def result(self) -> Any:
        """The value asked for, as the object that it was in the sandbox."""
        return self.outcome.result

    @property
    def stdout(self) -> str:
        """Everything written to standard output."""
        return self.outcome.stdout

    @property
    def stderr(self) -> str:
        """Tracebacks, warnings, and what the code wrote to standard error."""
        return self.outcome.stderr

    @property
    def error(self) -> ErrorDetail | None:
        """What went wrong, or None."""
        return self.outcome.error

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Every file that is new or changed."""
        return self.outcome.files

    @property
    def plots(self) -> tuple[PlotEntry, ...]:
        """Every figure captured or saved."""
        return self.outcome.plots

    @property
    def dataframes(self) -> tuple[DataFrameEntry, ...]:
        """Every pandas object among the global variables."""
        return self.outcome.dataframes

    def __getitem__(self, path: str) -> bytes:
        """The bytes of a file, by its path in the outcome."""
        if self._files is not None:
            return self._files.read(path)
        if self._session is None:
            raise _no_such_file(path)
        return self._session.read(path)

    def __contains__(self, path: object) -> bool:
        return any(file.path == path for file in self.outcome.files)

    def __iter__(self) -> Iterator[str]:
        """The paths of the files."""
        return (file.path for file in self.outcome.files)

    def __len__(self) -> int:
        return len(self.outcome.files)

    def save(self, dir: str | os.PathLike[str]) -> list[Path]:
        """Copies every regular file to a directory, which is made if missing; their paths there.

        The guest has chosen their names: what has one of them is replaced, and nothing outside of
        the directory is written to.
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
        """The path of a copy of a file on this machine, removed with this object."""
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
        """An item of OpenAI's Responses interface, figures included."""
        from .convert import to_openai

        return to_openai(self.outcome.to_dict(), call_id=call_id, read=self.__getitem__)

    def to_anthropic(
        self, tool_use_id: str | None = None, *, file_ids: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """A block of Anthropic's Messages interface, figures included."""
        from .convert import to_anthropic

        document = self.outcome.to_dict()
        return to_anthropic(document, tool_use_id, file_ids=file_ids, read=self.__getitem__)

    def to_gemini(
        self, *, call_id: str | None = None, name: str | None = None
    ) -> list[dict[str, Any]]:
        """Parts of Gemini's interface, figures included."""
        from .convert import to_gemini

        document = self.outcome.to_dict()
        return to_gemini(document, call_id=call_id, name=name, read=self.__getitem__)

    def close(self) -> None:
        """Removes the files now, rather than with the object."""
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

    def _repr_html_(self) -> str:
        from ._html import run

        return run(self)

    if TYPE_CHECKING:
        _files: _belljar.Run | None
        _session: Session | None
        _copies: TemporaryDirectory[str] | None


def _no_such_file(path: str) -> Exception:
    from ._errors import make

    return make(f"the run left no file {path}", "no_such_file")


def made(parts: tuple[Any, Any, Any], session: Session | None = None) -> Run:
    """The run that the native half gives."""
    report, typed, files = parts
    run = Run.__new__(Run)
    put = object.__setattr__
    put(run, "outcome", reported(report, typed))
    put(run, "_files", files)
    put(run, "_session", session)
    put(run, "_copies", None)
    return run
