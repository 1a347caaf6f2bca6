"""LlamaIndex's `CodeInterpreterToolSpec`, run by belljar."""

from __future__ import annotations

from typing import Any

from llama_index.core.tools.tool_spec.base import BaseToolSpec

import belljar

from ..report import error_text
from ._common import runtime_or_default


class CodeInterpreterToolSpec(BaseToolSpec):
    """A tool that runs Python in a sandbox and returns its output.

    With a `session`, later calls can use the variables of earlier ones; otherwise calls are
    independent. `run_options` are those of a run.
    """

    spec_functions = ["code_interpreter"]  # noqa: RUF012 - as the base has it

    def __init__(
        self,
        *,
        runtime: belljar.Runtime | None = None,
        session: belljar.Session | None = None,
        **run_options: Any,
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._run_options = run_options

    def code_interpreter(self, code: str) -> str:
        """Executes Python code and returns its standard output and standard error.

        Import what you use: the standard library, numpy, pandas, scipy, matplotlib and
        scikit-learn are there; the network and the user's files are not. Print what you want to
        see. Look at the output and the errors, and fix what went wrong.
        """
        runner = self._session or runtime_or_default(self._runtime)
        document = runner.run(code, **self._run_options).outcome.to_dict()
        return f"StdOut:\n{document['stdout']}\nStdErr:\n{error_text(document)}"
