"""A sandbox for deepagents: `create_deep_agent(backend=BelljarSandbox())`."""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Any

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.utils import (
    InvalidGlobPatternError,
    compile_grep_include_glob,
    perform_string_replacement,
    slice_read_response,
)

import belljar
from belljar import PathEntry

from ..convert import exit_code
from ..report import error_text
from ._common import runtime_or_default, with_usual
from ._programs import ROOT, inside, program_of

# Levels of directories that a search reads.
_DEPTH = 64


class BelljarSandbox(SandboxBackendProtocol):
    """Files and Python programs of an agent, in one session.

    Paths are absolute, below `/workspace`. `session_options` are those of `Runtime.session`;
    `timeout` is that of a command, in seconds.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 60.0,
        runtime: belljar.Runtime | None = None,
        **session_options: Any,
    ) -> None:
        self._id = f"belljar-{uuid.uuid4().hex}"
        self._runtime = runtime
        self._session_options = with_usual(session_options, timeout=timeout)
        self._timeout = self._session_options.pop("timeout")
        self._opened: belljar.Session | None = None

    @property
    def id(self) -> str:
        return self._id

    def close(self) -> None:
        """Closes the session. The next call opens an empty one."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a Python program; there is no shell."""
        try:
            program = program_of(command)
        except ValueError as error:
            return ExecuteResponse(f"{error}\n", 127)
        try:
            run = self._session.run(
                program.code(), cwd=program.cwd, timeout=timeout or self._timeout
            )
        except belljar.RefusedError as error:
            return ExecuteResponse(f"{error}\n", 126)
        document = run.outcome.to_dict()
        output = document["stdout"] + error_text(document)
        return ExecuteResponse(output, exit_code(document), bool(document.get("truncated")))

    def ls(self, path: str) -> LsResult:
        if path.rstrip("/") == "":
            return LsResult(entries=[FileInfo(path=f"{ROOT}/", is_dir=True)])
        with _reported(LsResult) as failed:
            entries = self._session.files.list(inside(path))
            return LsResult(entries=[_info(entry) for entry in entries])
        return failed.result

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        with _reported(ReadResult) as failed:
            data = _file_data(self._session.files.read(inside(file_path)))
            if data["encoding"] == "base64":
                return ReadResult(file_data=data)
            return slice_read_response(data, offset, limit)
        return failed.result

    def write(self, file_path: str, content: str) -> WriteResult:
        with _reported(WriteResult) as failed:
            self._write(file_path, content.encode())
            return WriteResult(path=file_path)
        return failed.result

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        with _reported(EditResult) as failed:
            data = _file_data(self._session.files.read(inside(file_path)))
            if data["encoding"] == "base64":
                return EditResult(error=f"{file_path} is not text")
            done = perform_string_replacement(data["content"], old_string, new_string, replace_all)
            if isinstance(done, str):
                return EditResult(error=done)
            self._write(file_path, done[0].encode())
            return EditResult(path=file_path, occurrences=done[1])
        return failed.result

    def delete(self, file_path: str) -> DeleteResult:
        with _reported(DeleteResult) as failed:
            self._session.files.remove(inside(file_path))
            return DeleteResult(path=file_path)
        return failed.result

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        matches: list[GrepMatch] = []
        with _reported(GrepResult) as failed:
            for entry in self._found(glob, path):
                data = _file_data(self._session.files.read(entry.path))
                if data["encoding"] == "base64":
                    continue
                for number, line in enumerate(data["content"].split("\n"), 1):
                    if pattern not in line:
                        continue
                    if max_count is not None and len(matches) >= max_count:
                        return GrepResult(matches=matches, truncated=True)
                    matches.append(GrepMatch(path=_outside(entry), line=number, text=line))
            return GrepResult(matches=matches)
        return failed.result

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        with _reported(GlobResult) as failed:
            return GlobResult(matches=[_info(entry) for entry in self._found(pattern, path)])
        return failed.result

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self._write(path, content)
        except (belljar.BelljarError, ValueError):
            return FileUploadResponse(path, "invalid_path")
        return FileUploadResponse(path)

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            entry = self._session.files.stat(inside(path))
            if entry.kind == "directory":
                return FileDownloadResponse(path, error="is_directory")
            return FileDownloadResponse(path, self._session.files.read(entry.path))
        except belljar.BelljarError:
            return FileDownloadResponse(path, error="file_not_found")
        except ValueError:
            return FileDownloadResponse(path, error="invalid_path")

    @property
    def _session(self) -> belljar.Session:
        if self._opened is None:
            runtime = runtime_or_default(self._runtime)
            self._opened = runtime.session(**self._session_options)
        return self._opened

    def _write(self, path: str, content: bytes) -> None:
        place = PurePosixPath(inside(path))
        if str(place.parent) != ".":
            self._session.files.make_dir(str(place.parent))
        self._session.files.write(str(place), content)

    def _found(self, pattern: str | None, path: str | None) -> Iterator[PathEntry]:
        """The files below a directory, or the one file, whose paths match."""
        root = "" if path is None or path.rstrip("/") == "" else inside(path)
        matches: Callable[[str], bool] = lambda _: True  # noqa: E731
        if pattern is not None:
            matches = compile_grep_include_glob(pattern)
        entry = self._session.files.stat(root) if root else None
        if entry is not None and entry.kind == "file":
            entries, root = [entry], str(PurePosixPath(root).parent).removeprefix(".")
        else:
            entries = self._session.files.list(root, depth=_DEPTH)
        prefix = f"{root}/" if root else ""
        for entry in entries:
            if entry.kind == "file" and matches(entry.path.removeprefix(prefix)):
                yield entry


class _Failed:
    result: Any = None


@contextlib.contextmanager
def _reported(result: Callable[..., Any]) -> Iterator[_Failed]:
    """Turns errors into results, which the model reads."""
    failed = _Failed()
    try:
        yield failed
    except (belljar.BelljarError, ValueError, InvalidGlobPatternError) as error:
        failed.result = result(error=str(error))


def _outside(entry: PathEntry) -> str:
    return f"{ROOT}/{entry.path}"


def _info(entry: PathEntry) -> FileInfo:
    is_dir = entry.kind == "directory"
    info = FileInfo(path=_outside(entry) + "/" * is_dir, is_dir=is_dir, size=entry.size)
    if entry.modified is not None:
        info["modified_at"] = datetime.fromtimestamp(entry.modified, timezone.utc).isoformat()
    return info


def _file_data(content: bytes) -> FileData:
    try:
        return FileData(content=content.decode(), encoding="utf-8")
    except UnicodeDecodeError:
        return FileData(content=base64.b64encode(content).decode(), encoding="base64")
