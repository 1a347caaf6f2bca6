"""LangChain's `PythonREPL`, `PythonREPLTool` and `PythonAstREPLTool`, run by belljar.

The names and signatures are those of `langchain_experimental`. Each REPL keeps its variables in its
own session; `_globals` are set in it.
"""

from __future__ import annotations

import ast
from typing import Any

from langchain_experimental.tools.python import tool as original
from langchain_experimental.utilities import python as utilities
from pydantic import ConfigDict, Field, PrivateAttr

import belljar

from ..report import describe
from ._common import Installer, result_of, runtime_or_default

__all__ = ["PythonAstREPLTool", "PythonREPL", "PythonREPLTool", "install", "uninstall"]


class PythonREPL(utilities.PythonREPL):
    """Runs commands in order and returns their output, or the repr of their exception."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    runtime: Any = None
    session_options: dict[str, Any] = Field(default_factory=dict)
    _session: belljar.Session | None = PrivateAttr(default=None)

    @property
    def session(self) -> belljar.Session:
        if self._session is None:
            self._session = runtime_or_default(self.runtime).session(**self.session_options)
            for variables in (self.globals, self.locals):
                for name, value in (variables or {}).items():
                    if not name.startswith("__"):
                        self._session.set(name, value)
        return self._session

    def run(self, command: str, timeout: float | None = None) -> str:
        limits = None if timeout is None else belljar.Limits(timeout=timeout)
        run = self.session.run(self.sanitize_input(command), echo="none", limits=limits)
        document = run.outcome.to_dict()
        if document["success"]:
            return document["stdout"]
        detail = document["error_detail"]
        if detail["kind"] == "timeout":
            return "Execution timed out"
        if detail["kind"] in ("exception", "syntax", "exit"):
            return f"{detail['type']}({detail['message']!r})"
        return describe(document)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class PythonREPLTool(original.PythonREPLTool):
    """The tool for such a REPL."""

    python_repl: utilities.PythonREPL = Field(default_factory=PythonREPL)


class PythonAstREPLTool(original.PythonAstREPLTool):
    """The tool that returns the value of the last expression, or the output."""

    runtime: Any = None
    session_options: dict[str, Any] = Field(default_factory=dict)
    _repl: PythonREPL | None = PrivateAttr(default=None)

    def _run(self, query: str, run_manager: Any = None) -> Any:
        if self._repl is None:
            self._repl = PythonREPL(
                _globals=self.globals,
                _locals=self.locals,
                runtime=self.runtime,
                session_options=self.session_options,
            )
        if self.sanitize_input:
            query = original.sanitize_input(query)
        code = _keeping_last_value(query)
        run = self._repl.session.run(code, echo="none", result=_LAST_VALUE)
        document = run.outcome.to_dict()
        if document["success"]:
            value = result_of(run.outcome)
            return document["stdout"] if value is None else value
        return f"{document['error_detail']['type']}: {document['error_detail']['message']}"


# The session's variable for the value of the last expression.
_LAST_VALUE = "_belljar_last_value"


def _keeping_last_value(code: str) -> str:
    """Returns the code, changed to assign a final expression to `_LAST_VALUE`."""
    try:
        module = ast.parse(code)
    except SyntaxError:
        return code  # The session reports it.
    kept: ast.expr = ast.Constant(None)
    last = module.body[-1] if module.body else None
    if isinstance(last, ast.Expr):
        kept = last.value
        module.body.pop()
    module.body.append(ast.Assign([ast.Name(_LAST_VALUE, ast.Store())], kept))
    return ast.unparse(ast.fix_missing_locations(module))


_INSTALLER = Installer(
    (
        "langchain_experimental.utilities.python",
        "langchain_experimental.utilities",
        "langchain_experimental.tools.python.tool",
        "langchain_experimental.tools",
    )
)


def install() -> None:
    """Replaces LangChain's REPL and tools in all of their modules."""
    _INSTALLER.install({name: globals()[name] for name in __all__[:3]})


def uninstall() -> None:
    """Restores what `install` replaced."""
    _INSTALLER.uninstall()
