"""A code executor for Google's Agent Development Kit.

Agent(code_executor=BelljarCodeExecutor(), ...)
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from pydantic import Field, PrivateAttr

import belljar

from ..convert import exit_code
from ..report import error_text
from ._common import runtime_or_default, with_usual


class BelljarCodeExecutor(BaseCodeExecutor):
    """Runs an agent's code blocks; with `stateful`, the blocks of an execution id share a session.

    `options` are those of a run, or of `Runtime.session` with `stateful`.
    """

    runtime: Any = Field(default=None, exclude=True)
    options: dict[str, Any] = Field(default_factory=dict)
    _sessions: dict[str, belljar.Session] = PrivateAttr(default_factory=dict)

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        run_options: dict[str, Any] = {} if self.stateful else dict(self.options)
        if self.timeout_seconds is not None:
            run_options = with_usual(run_options, timeout=self.timeout_seconds)
        files = {file.name: _content(file) for file in code_execution_input.input_files}
        run_options.setdefault("files", files)
        runner: Any = runtime_or_default(self.runtime)
        if self.stateful:
            key = code_execution_input.execution_id or "default"
            if key not in self._sessions:
                self._sessions[key] = runner.session(**self.options)
            runner = self._sessions[key]
        run = runner.run(code_execution_input.code, **run_options)
        document = run.outcome.to_dict()
        return CodeExecutionResult(
            stdout=document["stdout"],
            # The kit takes any text there for a failure.
            stderr="" if document["success"] else error_text(document),
            output_files=[
                File(
                    name=file["path"],
                    content=run[file["path"]],
                    mime_type=mimetypes.guess_type(file["path"])[0] or "application/octet-stream",
                )
                for file in document["files"]
                if "symlink" not in file
            ],
            exit_code=exit_code(document),
        )

    def close(self) -> None:
        """Ends all sessions."""
        while self._sessions:
            self._sessions.popitem()[1].close()


def _content(file: File) -> bytes:
    """Returns the bytes of an input file, which the kit passes as bytes or as base64 text."""
    if isinstance(file.content, bytes):
        return file.content
    try:
        return base64.b64decode(file.content, validate=True)
    except binascii.Error:
        return file.content.encode()
