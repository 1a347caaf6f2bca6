"""A sandbox for deepagents: `create_deep_agent(backend=BelljarSandbox())`."""

from __future__ import annotations

import base64
import contextlib
import re
import shlex
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
from ._common import runtime_or_default

ROOT = "/workspace"
# Levels of directories that a search reads.
_DEPTH = 64
_HERE_DOCUMENT = re.compile(r"""\s*(python3?)[^\n<]*<<\s*(['"]?)(\w+)\2\n(.*)\n\3\s*""", re.DOTALL)
_NO_SHELL = f"""there is no shell. Commands are, in {ROOT} or after `cd DIR &&`:
python FILE [ARGUMENTS], python -m MODULE [ARGUMENTS], python -c CODE, python - <<'END'
"""
# Each command begins without the modules that earlier ones imported from files, which may have
# changed since.
_COMMAND = """\
import os, runpy, sys
sys.argv, _path = {argv!r}, sys.path[:]
sys.path.insert(0, {directory!r} or os.getcwd())
try:
    {call}
finally:
    sys.path[:] = _path
    for _name, _module in list(sys.modules.items()):
        if str(getattr(_module, "__file__", None)).startswith({root!r}):
            del sys.modules[_name]
"""


class BelljarSandbox(SandboxBackendProtocol):
    """Files and Python programs of an agent, in one session.

    Paths are absolute, below `/workspace`. `session_options` are those of `Runtime.session`;
    `timeout` is that of a command, in seconds.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        runtime: belljar.Runtime | None = None,
        **session_options: Any,
    ) -> None:
        self._id = f"belljar-{uuid.uuid4().hex}"
        self._timeout = timeout
        self._runtime = runtime
        self._session_options = session_options
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
            cwd, argv, call = _program(command)
        except ValueError as error:
            return ExecuteResponse(f"{error}\n", 127)
        directory = str(PurePosixPath(cwd, argv[0]).parent) if argv[0].endswith(".py") else ""
        code = _COMMAND.format(argv=argv, directory=directory, call=call, root=f"{ROOT}/")
        try:
            run = self._session.run(code, cwd=cwd, timeout=timeout or self._timeout)
        except belljar.RefusedError as error:
            return ExecuteResponse(f"{error}\n", 126)
        document = run.outcome.to_dict()
        output = document["stdout"] + error_text(document)
        return ExecuteResponse(output, exit_code(document), bool(document.get("truncated")))

    def ls(self, path: str) -> LsResult:
        if path.rstrip("/") == "":
            return LsResult(entries=[FileInfo(path=f"{ROOT}/", is_dir=True)])
        with _reported(LsResult) as failed:
            entries = self._session.files.list(_inside(path))
            return LsResult(entries=[_info(entry) for entry in entries])
        return failed.result

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        with _reported(ReadResult) as failed:
            data = _file_data(self._session.files.read(_inside(file_path)))
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
            data = _file_data(self._session.files.read(_inside(file_path)))
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
            self._session.files.remove(_inside(file_path))
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
            entry = self._session.files.stat(_inside(path))
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
        inside = PurePosixPath(_inside(path))
        if str(inside.parent) != ".":
            self._session.files.make_dir(str(inside.parent))
        self._session.files.write(str(inside), content)

    def _found(self, pattern: str | None, path: str | None) -> Iterator[PathEntry]:
        """The files below a directory, or the one file, whose paths match."""
        root = "" if path is None or path.rstrip("/") == "" else _inside(path)
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


def _program(command: str) -> tuple[str, list[str], str]:
    """The working directory, the arguments, and the call that runs the program."""
    if found := _HERE_DOCUMENT.fullmatch(command):
        return ROOT, ["-"], _exec(found[4])
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise ValueError(f"{error}: {_NO_SHELL}") from error
    cwd = ROOT
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        cwd, words = str(PurePosixPath(ROOT, words[1])), words[3:]
    has_operator = any(set(word) <= set("();<>|&") for word in words)
    if len(words) < 2 or words[0] not in ("python", "python3") or has_operator:
        raise ValueError(_NO_SHELL)
    match words[1:]:
        case ["-c", code, *rest]:
            return cwd, ["-c", *rest], _exec(code)
        case ["-m", module, *rest]:
            call = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
            return cwd, [module, *rest], call
        case [file, *rest] if not file.startswith("-"):
            return cwd, [file, *rest], f"runpy.run_path({file!r}, run_name='__main__')"
    raise ValueError(_NO_SHELL)


def _exec(code: str) -> str:
    return f"exec(compile({code!r}, '<string>', 'exec'), {{'__name__': '__main__'}})"


def _inside(path: str) -> str:
    """A path for `Session.files`."""
    if path.rstrip("/") == ROOT:
        return ""
    inside = PurePosixPath(path)
    if ".." in inside.parts or not inside.is_relative_to(ROOT):
        raise ValueError(f"{path!r} is not below {ROOT}, where all files are")
    return str(inside.relative_to(ROOT))


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
