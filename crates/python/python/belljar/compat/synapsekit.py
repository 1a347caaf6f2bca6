"""SynapseKit's `CodeInterpreterTool`, run by belljar.

    from belljar.compat.synapsekit import CodeInterpreterTool

    tool = CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)
    result = await tool.run(code="print(6 * 7)")

With `install()` the tool is ours wherever SynapseKit keeps it, and programs stay as they are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..report import describe
from ._common import Installer, aruntime_or_default

if TYPE_CHECKING:
    import belljar

try:
    from synapsekit.agents.base import BaseTool, ToolResult
except ImportError:
    from ._synapsekit_base import BaseTool, ToolResult

__all__ = ["CodeInterpreterTool", "ToolResult", "install", "uninstall"]

# To SynapseKit's tool, no memory is no limit.
_MAX_MEMORY_MB = 3072

_KEYS = ("stdout", "stderr", "files", "plots", "dataframes")


class CodeInterpreterTool(BaseTool):
    """Runs Python in a sandbox of its own and gives what it printed, made and left.

    `output` is the JSON that SynapseKit's tool gives, after an error and a timeout too. `error`
    begins with the one line that its tool gives and goes on with the traceback and the output so
    far, because that is all that an agent shows its model. `metadata` has the whole outcome
    (`outcome`) and the run that artifacts can be read from (`run`).
    """

    name = "code_interpreter"
    description = (
        "Execute Python code in an isolated sandbox and capture stdout, stderr, "
        "generated files, plots, and dataframe reprs."
    )
    parameters = {  # noqa: RUF012 - as the framework's own tools have it
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "description": "Python code to execute in the sandboxed interpreter",
            }
        },
        "required": ["code"],
    }

    def __init__(
        self,
        timeout: float = 5.0,
        memory_limit_mb: int = 256,
        *,
        runtime: belljar.Runtime | None = None,
        **run_options: Any,
    ) -> None:
        """`run_options` are those of `Runtime.run`: `image`, `files`, `tools` and so on."""
        self.timeout = timeout
        self.memory_limit_mb = memory_limit_mb
        self.runtime = runtime
        self.run_options = run_options

    async def run(self, code: str = "", **kwargs: Any) -> ToolResult:
        source = code or kwargs.get("input", "")
        if not source:
            return ToolResult(output="", error="No code provided.")
        runtime = await aruntime_or_default(self.runtime)
        run = await runtime.arun(
            source,
            timeout=self.timeout,
            memory_mb=self.memory_limit_mb if self.memory_limit_mb > 0 else _MAX_MEMORY_MB,
            **self.run_options,
        )
        document = run.outcome.to_dict()
        if (document["error_detail"] or {}).get("kind") == "timeout":
            # The number as it was given here: 5.0, not 5.
            document["error"] = f"Code execution timed out after {self.timeout} seconds"
        return ToolResult(
            output=json.dumps({key: document[key] for key in _KEYS}),
            error=describe(document) if document["error"] else None,
            metadata={"outcome": document, "run": run},
        )


_INSTALLER = Installer(
    (
        "synapsekit.agents.tools.code_interpreter",
        "synapsekit.agents.tools",
        "synapsekit.agents",
        "synapsekit",
    )
)


def install() -> None:
    """Makes SynapseKit's `CodeInterpreterTool` this one, in all of its modules."""
    _INSTALLER.install({"CodeInterpreterTool": CodeInterpreterTool})


def uninstall() -> None:
    """Gives SynapseKit its own tool back."""
    _INSTALLER.uninstall()
