"""Code in what a model writes."""

from __future__ import annotations

import re

# A fence opens at the beginning of a line and is closed by one at least as long, or by the end of
# a reply that was cut off.
_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^\n]*\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = ("python", "py", "python3", "ipython", "tool_code")


def extract_code(reply: str) -> str | None:
    """The Python in a reply: its fenced blocks, one after the other, or None without any.

    Blocks without a language count where none is named Python.
    """
    blocks = [
        (match["language"].lower(), match["code"].strip("\n")) for match in _BLOCK.finditer(reply)
    ]
    python = [code for language, code in blocks if language in _PYTHON]
    chosen = python or [code for language, code in blocks if not language]
    chosen = [code for code in chosen if code.strip()]
    return "\n\n".join(chosen) + "\n" if chosen else None


def without_code(reply: str) -> str:
    """What a reply says before its first block."""
    first = _BLOCK.search(reply)
    return (reply if first is None else reply[: first.start()]).strip()
