"""A sandbox for Inspect: `Task(sandbox="belljar")`, once this module is imported."""

from __future__ import annotations

import asyncio
import errno
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

import belljar

from ..convert import exit_code
from ..report import error_text
from ._common import aruntime_or_default
from ._programs import ROOT, Program, inside, program_of, program_with

# Seconds for a command that names no limit.
_TIMEOUT = 60.0


class BelljarConfig(BaseModel):
    """The configuration of `sandbox=("belljar", BelljarConfig(image="data"))`.

    `url` names a server (`belljar serve`), whose key is `BELLJAR_KEY`; by default the code runs in
    this process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str | None = None
    timeout: float = _TIMEOUT
    memory_mb: int | None = None
    workspace_mb: int | None = None
    url: str | None = None


@sandboxenv(name="belljar")
class BelljarSandboxEnvironment(SandboxEnvironment):
    """Files and Python programs of a sample, in one session. There is no shell."""

    def __init__(
        self, session: belljar.Session, timeout: float, runtime: belljar.Runtime | None = None
    ) -> None:
        super().__init__()
        self._session = session
        self._timeout = timeout
        # A connection that ends with the sample.
        self._own = runtime

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        config = BelljarConfig(image=config) if isinstance(config, str) else config
        config = config or BelljarConfig()
        own = belljar.connect(config.url) if config.url is not None else None
        runtime = own or await aruntime_or_default(None)
        options = config.model_dump(include={"image", "memory_mb", "workspace_mb"})
        session = await runtime.asession(**options)
        return {"default": cls(session, config.timeout, own)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            if isinstance(environment, cls):
                await asyncio.to_thread(environment._close)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BelljarConfig:
        return BelljarConfig(**config)

    def _close(self) -> None:
        self._session.close()
        if self._own is not None:
            self._own.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
        **_: Any,
    ) -> ExecResult[str]:
        """Runs a Python program: `python FILE`, `-c CODE`, `-m MODULE`, or `-` with its code as
        input; also as the command of `bash -c`.
        """
        if user not in (None, "root"):
            raise PermissionError(errno.EPERM, f"there is no user {user!r}, only the code's own")
        try:
            program = _program(cmd, str(PurePosixPath(ROOT, cwd or "")), input)
        except ValueError as error:
            return ExecResult(False, 127, "", f"{error}\n")
        stdin = None if program.argv[0] == "-" else input
        try:
            run = await self._session.arun(
                program.code(),
                cwd=program.cwd,
                stdin=stdin,
                run_env=env,
                timeout=timeout or self._timeout,
                output_bytes=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            )
        except belljar.RefusedError as error:
            return ExecResult(False, 126, "", f"{error}\n")
        document = run.outcome.to_dict()
        if run.error is not None and run.error.kind == "timeout":
            raise TimeoutError(f"the command did not end within {timeout or self._timeout} s")
        if {"stdout", "stderr"} & set(document.get("truncated") or ()):
            raise OutputLimitExceededError(
                limit_str=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                truncated_output=document["stdout"],
            )
        code = exit_code(document)
        return ExecResult(code == 0, code, document["stdout"], error_text(document))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        path = _path(file)
        parent = str(PurePosixPath(path).parent)
        files = self._session.files
        try:
            if parent != ".":
                await files.amake_dir(parent)
            await files.awrite(path, contents)
        except belljar.BelljarError as error:
            raise await self._unwritten(path, file, error) from error

    async def _unwritten(self, path: str, file: str, error: belljar.BelljarError) -> Exception:
        """The exception for a file that could not be written."""
        try:
            entry = await self._session.files.astat(path)
        except belljar.BelljarError:
            return _error(error, file)
        if entry.kind == "directory":
            return IsADirectoryError(errno.EISDIR, "Is a directory", file)
        return _error(error, file)

    async def read_file(self, file: str, text: bool = True) -> Any:
        path, limits = _path(file), SandboxEnvironmentLimits
        files = self._session.files
        try:
            entry = await files.astat(path)
            if entry.kind == "directory":
                raise IsADirectoryError(errno.EISDIR, "Is a directory", file)
            if entry.size > limits.MAX_READ_FILE_SIZE:
                raise OutputLimitExceededError(
                    limit_str=limits.MAX_READ_FILE_SIZE_STR, truncated_output=None
                )
            data = await files.aread(path)
        except belljar.BelljarError as error:
            raise _error(error, file) from error
        return data.decode() if text else data


def _program(cmd: Sequence[str], cwd: str, input: str | bytes | None) -> Program:
    if cmd and PurePosixPath(cmd[0]).name in ("bash", "sh"):
        options = list(cmd[1:])
        while options and options[0] in ("--login", "-l"):
            options.pop(0)
        if len(options) == 2 and options[0] in ("-c", "-lc"):
            return program_of(options[1], cwd, input)
        return program_of(shlex.join(cmd), cwd, input)
    return program_with(cmd, cwd, input)


def _path(file: str) -> str:
    try:
        return inside(str(PurePosixPath(ROOT, file)))
    except ValueError as error:
        raise PermissionError(errno.EACCES, str(error), file) from None


def _error(error: belljar.BelljarError, file: str) -> Exception:
    """The exception that Inspect expects."""
    if isinstance(error, belljar.NoSuchFileError):
        return FileNotFoundError(errno.ENOENT, "No such file or directory", file)
    return error
