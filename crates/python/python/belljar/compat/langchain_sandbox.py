"""langchain-sandbox's `PyodideSandbox` and `SyncPyodideSandbox`, run by belljar.

Deno is not needed. The state of a stateful sandbox, `session_bytes`, is a checkpoint of a session.
"""

from __future__ import annotations

from typing import Any

from langchain_sandbox import pyodide

import belljar

from ..report import error_text
from ._common import Installer, aruntime_or_default, runtime_or_default

__all__ = ["PyodideSandbox", "SyncPyodideSandbox", "install", "uninstall"]


def _run_options(timeout: float | None) -> dict[str, Any]:
    """Options of a run. It has the usual time limit if none is given."""
    limits = {} if timeout is None else {"timeout": timeout}
    return {"echo": "display", "capture": {"events": True}, **limits}


class _Sandbox:
    """The common base class. Permissions for Deno are accepted and ignored."""

    def __init__(
        self,
        *,
        stateful: bool = False,
        runtime: belljar.Runtime | None = None,
        session_options: dict[str, Any] | None = None,
        **_permissions: Any,
    ) -> None:
        self.stateful = stateful
        self._runtime = runtime
        self._session_options = dict(session_options or {})

    def _options(self, memory_limit_mb: int | None) -> dict[str, Any]:
        return {"memory_mb": memory_limit_mb, **self._session_options}


class PyodideSandbox(_Sandbox, pyodide.PyodideSandbox):
    """Runs code; with `stateful`, restores the session from the given state and returns the new
    state.
    """

    async def execute(
        self,
        code: str,
        *,
        session_bytes: bytes | None = None,
        session_metadata: dict[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_limit_mb: int | None = None,
    ) -> pyodide.CodeExecutionResult:
        runtime = await aruntime_or_default(self._runtime)
        options = self._options(memory_limit_mb)
        if not self.stateful:
            run = await runtime.arun(code, **_run_options(timeout_seconds), **options)
            return _result(run, timeout_seconds)
        if session_bytes:
            session = await runtime.arestore(session_bytes)
        else:
            session = await runtime.asession(**options)
        try:
            run = await session.arun(code, **_run_options(timeout_seconds))
            return _result(run, timeout_seconds, await session.acheckpoint())
        finally:
            session.close()


class SyncPyodideSandbox(_Sandbox, pyodide.SyncPyodideSandbox):
    """Synchronous variant."""

    def execute(
        self,
        code: str,
        *,
        session_bytes: bytes | None = None,
        session_metadata: dict[str, Any] | None = None,
        timeout_seconds: float | None = None,
        memory_limit_mb: int | None = None,
    ) -> pyodide.CodeExecutionResult:
        runtime = runtime_or_default(self._runtime)
        options = self._options(memory_limit_mb)
        if not self.stateful:
            run = runtime.run(code, **_run_options(timeout_seconds), **options)
            return _result(run, timeout_seconds)
        restored = runtime.restore(session_bytes) if session_bytes else None
        with restored or runtime.session(**options) as session:
            run = session.run(code, **_run_options(timeout_seconds))
            return _result(run, timeout_seconds, session.checkpoint())


def _result(
    run: belljar.Run, timeout: float | None, state: bytes | None = None
) -> pyodide.CodeExecutionResult:
    document = run.outcome.to_dict()
    stderr = error_text(document)
    if (document["error_detail"] or {}).get("kind") == "timeout" and timeout is not None:
        stderr = f"Execution timed out after {timeout} seconds"
    return pyodide.CodeExecutionResult(
        status="success" if document["success"] else "error",
        execution_time=document["usage"]["wall_ms"] / 1000,
        stdout=document["stdout"] or None,
        stderr=stderr or None,
        result=_last_value(document),
        session_metadata={} if state else None,
        session_bytes=state,
    )


def _last_value(document: dict[str, Any]) -> str | None:
    """The value of the last expression, as text."""
    shown = [event for event in document["events"] if event["type"] == "result"]
    return shown[-1]["data"].get("text/plain") if shown else None


_INSTALLER = Installer(("langchain_sandbox.pyodide", "langchain_sandbox"))


def install() -> None:
    """Replaces the two sandboxes in the package and in its tool."""
    _INSTALLER.install({name: globals()[name] for name in __all__[:2]})


def uninstall() -> None:
    """Restores what `install` replaced."""
    _INSTALLER.uninstall()
