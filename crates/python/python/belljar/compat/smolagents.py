"""A Python executor for smolagents: `CodeAgent(executor=BelljarExecutor(), ...)`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smolagents.local_python_executor import CodeOutput, PythonExecutor

import belljar

from ..report import describe
from ._common import runtime_or_default, with_usual

if TYPE_CHECKING:
    from smolagents import Tool

_FINAL = "FinalAnswerException"

# An agent's last step calls `final_answer`, which ends the run.
_FINAL_ANSWER = f"""\
class {_FINAL}(BaseException):
    pass


def final_answer(answer=None):
    global _final_answer
    _final_answer = answer
    raise {_FINAL}
"""


class BelljarExecutor(PythonExecutor):
    """Runs an agent's code in a session. Tools stay in this process and are called from the
    session.

    `session_options` are those of `Runtime.session`, `run_options` those of each run.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 30.0,
        runtime: belljar.Runtime | None = None,
        run_options: Mapping[str, Any] | None = None,
        **session_options: Any,
    ) -> None:
        self._runtime = runtime
        self._session_options = with_usual(session_options, timeout=timeout)
        usual = self._session_options.pop("timeout")
        self._run_options = with_usual(run_options or {}, timeout=usual)
        self._session: belljar.Session | None = None
        self._tools: list[belljar.Tool] = []

    @property
    def session(self) -> belljar.Session:
        if self._session is None:
            self._session = runtime_or_default(self._runtime).session(**self._session_options)
            self._session.run(_FINAL_ANSWER)
        return self._session

    def send_tools(self, tools: dict[str, Tool]) -> None:
        self._tools = [_tool(name, tool) for name, tool in tools.items() if name != "final_answer"]
        if self._tools:
            names = ", ".join(tool.name for tool in self._tools)
            self.session.run(f"from tools import {names}", tools=self._tools)

    def send_variables(self, variables: dict[str, Any]) -> None:
        for name, value in variables.items():
            self.session.set(name, value)

    def __call__(self, code_action: str) -> CodeOutput:
        run = self.session.run(
            code_action,
            tools=self._tools,
            echo="display",
            capture={"events": True},
            **self._run_options,
        )
        outcome = run.outcome
        document = outcome.to_dict()
        if (document["error_detail"] or {}).get("type") == _FINAL:
            answer = self.session.get("_final_answer")
            return CodeOutput(output=answer, logs=document["stdout"], is_final_answer=True)
        if not document["success"]:
            raise CodeError(describe(document))
        return CodeOutput(output=_last(document), logs=document["stdout"], is_final_answer=False)

    def cleanup(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class CodeError(Exception):
    """The agent's code failed; the text is shown to its model."""


def _tool(name: str, tool: Any) -> belljar.Tool:
    properties = {
        key: {k: v for k, v in given.items() if k != "nullable"}
        for key, given in tool.inputs.items()
    }
    required = [key for key, given in tool.inputs.items() if not given.get("nullable")]
    schema = {"type": "object", "properties": properties, "required": required}

    def call(**arguments: Any) -> Any:
        return tool(**arguments)

    parameters = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY) for key in properties]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return belljar.Tool(call, name=name, description=tool.description, schema=schema)


def _last(document: dict[str, Any]) -> str | None:
    """The value of the last expression, as text."""
    for event in reversed(document.get("events") or ()):
        if event["type"] == "result":
            return event["data"].get("text/plain")
    return None
