"""SynapseKit's `CodeInterpreterTool`, run by belljar.

    from belljar.compat.synapsekit import CodeInterpreterTool

    tool = CodeInterpreterTool(timeout=10.0, memory_limit_mb=256)
    result = await tool.run(code="print(6 * 7)")

`install()` replaces SynapseKit's own tool, so that programs need no change.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..report import describe
from ._common import Installer, aruntime_or_default, with_usual

if TYPE_CHECKING:
    import belljar

try:
    from synapsekit.agents.base import BaseTool, ToolResult
except ImportError:
    from ._synapsekit_base import BaseTool, ToolResult

__all__ = ["CodeInterpreterTool", "ToolResult", "install", "uninstall"]

# In SynapseKit, 0 or None means no memory limit.
_MAX_MEMORY_MB = 3072

_KEYS = ("stdout", "stderr", "files", "plots", "dataframes")


class CodeInterpreterTool(BaseTool):
    """Runs Python in a fresh sandbox and returns its output, files and variables.

    `output` is JSON in the format of SynapseKit's tool, also after an error or a timeout. `error`
    starts with the same line as SynapseKit's tool, followed by the traceback and the output so far,
    because an agent shows nothing else to its model. `metadata` has the whole outcome (`outcome`)
    and the run, for reading artifacts (`run`).
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
        memory_mb = self.memory_limit_mb if self.memory_limit_mb > 0 else _MAX_MEMORY_MB
        options = with_usual(self.run_options, timeout=self.timeout, memory_mb=memory_mb)
        runtime = await aruntime_or_default(self.runtime)
        run = await runtime.arun(
            source,
            **options,
        )
        document = run.outcome.to_dict()
        if (document["error_detail"] or {}).get("kind") == "timeout":
            # The number as given: 5.0, not 5.
            document["error"] = f"Code execution timed out after {options['timeout']} seconds"
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
    """Replaces SynapseKit's `CodeInterpreterTool` in all of its modules."""
    _INSTALLER.install({"CodeInterpreterTool": CodeInterpreterTool})


def uninstall() -> None:
    """Restores what `install` replaced."""
    _INSTALLER.uninstall()
