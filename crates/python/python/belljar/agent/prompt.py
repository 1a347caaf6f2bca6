"""The messages to the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belljar._tools import AnyTool

SYSTEM_PROMPT = """\
You answer by writing Python and having it run.

Write one fenced block that begins with ```python and nothing after it. It is run, and you are \
told what it printed, what it left behind, or the error with its line. Then write the next block, \
or answer.

- Variables, imports and files stay from one block to the next: go on from them, and after an \
error write only what has to change.
- Print what you want to see. An expression on a line of its own is printed, too.
- Save figures and other results as files in the current directory.
- There is no network, no shell and no pip; numpy, pandas, scipy, matplotlib, seaborn, \
scikit-learn, statsmodels and sympy are there.
- Compute what can be computed instead of recalling it.
- When you know the answer, write it without any code block.
"""

# Requests the final answer, once no more code may run.
NO_MORE_CODE = "No more code can be run. Answer now, without a code block, with what is known."


def with_what_is_there(prompt: str, files: Iterable[str], tools: Sequence[AnyTool]) -> str:
    """The prompt, with the caller's files and functions that the code can use."""
    files = list(files)
    if files:
        prompt += f"\nFiles in the current directory: {', '.join(sorted(files))}.\n"
    if tools:
        prompt += "\nFunctions that code can call after `import tools`:\n\n"
        prompt += "".join(_tool_line(tool) for tool in tools)
    return prompt


def _tool_line(tool: AnyTool) -> str:
    from belljar import Tool

    held = tool if isinstance(tool, Tool) else Tool(tool)
    properties: dict[str, Any] = held.schema.get("properties", {})
    parameters = [_parameter(name, of, held.schema) for name, of in properties.items()]
    return f"- tools.{held.name}({', '.join(parameters)}): {held.description}\n"


def _parameter(name: str, of: Any, schema: dict[str, Any]) -> str:
    kind = of.get("type") if isinstance(of, dict) else None
    shown = f"{name}: {kind}" if isinstance(kind, str) else name
    return shown if name in schema.get("required", ()) else f"{shown} = ..."


def observation_message(observation: str, *, rewound: bool = False) -> str:
    """The message about the result of a piece of code."""
    text = f"Output:\n{observation}"
    if rewound:
        text += "\n\nNothing of this block was kept: variables and files are as before it."
    return text
