"""Pantheon's `PythonInterpreterToolSet`, run by belljar.

    from belljar.compat.pantheon import PythonInterpreterToolSet

    python_tools = PythonInterpreterToolSet(name="python", workdir="/path/to/workspace")
    await agent.toolset(python_tools)

`install()` replaces Pantheon's own toolset, so that programs need no change.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import belljar

from ..convert import pictures
from ..report import describe
from ._common import Installer, aruntime_or_default, result_of, with_usual
from ._workdir import Workdir

if TYPE_CHECKING:
    from collections.abc import Mapping

try:
    from pantheon.toolset import ToolSet, tool
    from pantheon.toolsets.python.python_interpreter import PythonInterpreterError
except ImportError:
    from ._pantheon_base import ToolSet, tool

    class PythonInterpreterError(Exception):  # type: ignore[no-redef]
        """Code raised an exception that it did not catch."""


__all__ = [
    "DEFAULT_INIT_CODE",
    "PythonInterpreterError",
    "PythonInterpreterToolSet",
    "install",
    "uninstall",
]

# Pantheon defines these names in each session; its code for figures is not needed here.
DEFAULT_INIT_CODE = """\
import os
import uuid

import matplotlib
import matplotlib.pyplot as plt
"""

_FIGURES = ".matplotlib_figs"


class PythonInterpreterToolSet(ToolSet):
    """Python in sessions that keep their state and recover from crashes.

    A given `workdir` is shared with the sessions: they see its files, and their files are written
    to it. Without it, the code has its own workspace, and only figures are copied to the current
    directory.
    """

    def __init__(
        self,
        name: str,
        workdir: str | None = None,
        engine: Any = None,
        init_code: str | None = DEFAULT_INIT_CODE,
        shared_executor: Any = None,
        *,
        timeout: float | None = 600.0,
        memory_limit_mb: int = 1024,
        runtime: belljar.Runtime | None = None,
        session_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            engine: taken and not used: sessions need no processes.
            timeout: seconds of each run.
            memory_limit_mb: memory of a session.
            session_options: those of `Runtime.session`: `image`, `files`, `mounts`, `tools`.
        """
        super().__init__(name, **kwargs)
        self.interpreters: dict[str, belljar.Session] = {}
        self.clientid_to_interpreterid: dict[str, str] = {}
        self.engine = engine
        self.shared_executor = shared_executor
        self.workdir = Path(workdir).expanduser().resolve() if workdir else Path.cwd()
        self.init_code = init_code
        self._shares_workdir = workdir is not None
        self._workdirs: dict[str, Workdir] = {}
        self._making = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        self._runtime = runtime
        self._session_options = with_usual(
            session_options or {}, timeout=timeout, memory_mb=memory_limit_mb
        )
        self._timeout = self._session_options.pop("timeout")

    @tool
    async def run_python_code(
        self,
        code: str,
        interpreter_id: str | None = None,
        result_var_name: str | None = None,
    ) -> dict[str, Any]:
        """Run Python code and return the result.

        Variables and state are preserved between calls in the same session; the session is
        managed for you. The value of an expression on a line of its own is printed.

        Args:
            code: The Python code to run.
            interpreter_id: Optional. The interpreter session to run the code in. Without it the
                default session of the current context is used.
            result_var_name: Optional. The name of the variable to return the value of.

        Returns:
            dict: "success", "result" (the value of `result_var_name`), "stdout" and "stderr".
        """
        if self.shared_executor is not None:
            return self._run_shared(code)
        if not interpreter_id:
            interpreter_id = await self._default_interpreter()
        if interpreter_id not in self.interpreters:
            return _not_found(interpreter_id)
        return await self.run_code_in_interpreter(code, interpreter_id, result_var_name)

    @tool(exclude=True)
    async def run_code_in_interpreter(
        self,
        code: str,
        interpreter_id: str,
        result_var_name: str | None = None,
    ) -> dict[str, Any]:
        """Run code in an interpreter that was created.

        Args:
            code: The code to run.
            interpreter_id: The id of the interpreter.
            result_var_name: The name of the variable whose value is wanted.
        """
        if interpreter_id not in self.interpreters:
            raise ValueError(f"Interpreter {interpreter_id} not found")
        session = self.interpreters[interpreter_id]
        workdir = self._workdir_of(interpreter_id)
        # In the order of the calls, files included.
        async with self._turns.setdefault(interpreter_id, asyncio.Lock()):
            files = await asyncio.to_thread(workdir.changed) if self._shares_files() else None
            # An empty cell only returns the variable.
            run = await session.arun(
                code if code.strip() else "pass",
                timeout=self._timeout,
                result=result_var_name,
                files=files,
            )
            document = run.outcome.to_dict()
            left = await asyncio.to_thread(self._take_files, document, run, workdir)
        answer = {
            "success": document["success"],
            "result": None if result_var_name is None else result_of(run.outcome),
            "stdout": document["stdout"],
            "stderr": document["stderr"],
            **left,
            **_recovery(document),
        }
        if not document["success"]:
            if "interpreter_restarted" not in answer and "interpreter_crashed" not in answer:
                raise _error(document, run)
            answer["error"] = document["error"]
        return answer

    @tool(exclude=True)
    async def new_interpreter(self) -> dict[str, Any]:
        """Create a new Python interpreter and return its id."""
        runtime = await aruntime_or_default(self._runtime)
        session = await runtime.asession(**{"init_code": self.init_code, **self._session_options})
        self.interpreters[session.id] = session
        return {"success": True, "interpreter_id": session.id}

    @tool(exclude=True)
    async def delete_interpreter(self, interpreter_id: str) -> dict[str, Any]:
        """Delete an interpreter.

        Args:
            interpreter_id: The id of the interpreter to delete.
        """
        session = self.interpreters.pop(interpreter_id, None)
        if session is None:
            return _not_found(interpreter_id)
        self._workdirs.pop(interpreter_id, None)
        self._turns.pop(interpreter_id, None)
        session.close()
        return {"success": True, "interpreter_id": interpreter_id}

    @tool(exclude=True)
    async def list_interpreters(self) -> dict[str, Any]:
        """List all interpreters."""
        interpreters = [
            {"id": interpreter_id, "status": session.info.status}
            for interpreter_id, session in self.interpreters.items()
        ]
        return {"success": True, "interpreters": interpreters}

    @tool
    async def manage_interpreters(
        self, operation: str, interpreter_id: str | None = None
    ) -> dict[str, Any]:
        """Manage Python interpreters.

        Args:
            operation: The operation to perform. choose from "create", "list", "delete".
            interpreter_id: The id of the interpreter to delete. Required for "delete".
        """
        if operation == "create":
            return await self.new_interpreter()
        if operation == "list":
            return await self.list_interpreters()
        if operation == "delete":
            if interpreter_id is None:
                return _failed("interpreter_id is required for delete operation")
            return await self.delete_interpreter(interpreter_id)
        return _failed(f"Unknown operation: {operation}")

    async def cleanup(self) -> None:
        """Closes all interpreters."""
        while self.interpreters:
            self.interpreters.popitem()[1].close()
        self._workdirs.clear()
        self._turns.clear()

    async def _default_interpreter(self) -> str:
        context = self.get_context() or {}
        key = context.get("chat_id") or context.get("client_id") or "default"
        async with self._making:
            interpreter_id = self.clientid_to_interpreterid.get(key)
            if interpreter_id not in self.interpreters:
                interpreter_id = (await self.new_interpreter())["interpreter_id"]
                self.clientid_to_interpreterid[key] = interpreter_id
        return interpreter_id

    def _shares_files(self) -> bool:
        return self._shares_workdir or self._get_effective_workdir() is not None

    def _workdir_of(self, interpreter_id: str) -> Workdir:
        path = Path(self._get_effective_workdir() or self.workdir).expanduser().resolve()
        workdir = self._workdirs.get(interpreter_id)
        if workdir is None or workdir.path != path:
            workdir = self._workdirs[interpreter_id] = Workdir(path)
        return workdir

    def _take_files(
        self, document: dict[str, Any], run: belljar.Run, workdir: Workdir
    ) -> dict[str, Any]:
        plots = [plot["path"] for plot in document["plots"]]
        files = [file["path"] for file in document["files"] if "symlink" not in file]
        contents = _contents(run, {*plots, *(files if self._shares_files() else ())})
        if self._shares_files():
            for path in files:
                if path in contents:
                    workdir.take(path, contents[path])
        document["plots"] = [plot for plot in document["plots"] if plot["path"] in contents]
        return _figures(document, contents, workdir)

    def _run_shared(self, code: str) -> dict[str, Any]:
        done = self.shared_executor.execute(code)
        return {
            "success": done.get("error") is None,
            "result": done.get("result"),
            "stdout": done.get("output", ""),
            "stderr": done.get("error", "") or "",
        }


def _contents(run: belljar.Run, paths: set[str]) -> dict[str, bytes]:
    """The files of a run that the session still has."""
    contents = {}
    for path in sorted(paths):
        try:
            contents[path] = run[path]
        except (belljar.NoSuchFileError, belljar.SessionError):
            continue
    return contents


def _figures(
    document: dict[str, Any], contents: dict[str, bytes], workdir: Workdir
) -> dict[str, Any]:
    """Figures in Pantheon's format: files in the working directory, and data for its page."""
    paths = []
    for plot in document["plots"]:
        path = f"{_FIGURES}/{uuid.uuid4()}{Path(plot['path']).suffix}"
        if workdir.take(path, contents[plot["path"]]) is not None:
            paths.append(path)
    shown = pictures(document, contents.__getitem__)
    uris = [f"data:{media_type};base64,{data}" for media_type, data in shown]
    answer: dict[str, Any] = {}
    if paths:
        answer["fig_storage_path"] = paths[-1]
        answer["fig_storage_paths"] = paths
    if uris:
        answer["base64_uri"] = uris
        answer["hidden_to_model"] = ["base64_uri"]
    return answer


def _recovery(document: dict[str, Any]) -> dict[str, Any]:
    keys = ("interpreter_restarted", "restart_reason", "interpreter_crashed")
    return {key: document[key] for key in keys if document.get(key)}


def _error(document: dict[str, Any], run: belljar.Run) -> PythonInterpreterError:
    """The exception that the toolset raises for errors of the code; `run` is the partial result."""
    error = PythonInterpreterError(describe(document))
    error.run = run  # type: ignore[attr-defined]
    return error


def _not_found(interpreter_id: str) -> dict[str, Any]:
    return _failed(f"Interpreter {interpreter_id} not found")


def _failed(error: str) -> dict[str, Any]:
    return {"success": False, "error": error}


_INSTALLER = Installer(
    (
        "pantheon.toolsets.python.python_interpreter",
        "pantheon.toolsets.python",
        "pantheon.toolsets",
    )
)


def install() -> None:
    """Replaces Pantheon's `PythonInterpreterToolSet` in all of its modules."""
    _INSTALLER.install({"PythonInterpreterToolSet": PythonInterpreterToolSet})


def uninstall() -> None:
    """Restores what `install` replaced."""
    _INSTALLER.uninstall()
