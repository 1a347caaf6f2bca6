"""Extracts code from a model's reply."""

from __future__ import annotations

import re

# A fence starts at the beginning of a line. It ends with a fence at least as long, or with a
# truncated reply.
_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^\n]*\n"
    r"(?P<code>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = ("python", "py", "python3", "ipython", "tool_code")


def extract_code(reply: str) -> str | None:
    """Returns the Python in a reply, its fenced blocks joined, or None without blocks.

    Blocks without a language are used if no block is marked as Python.
    """
    blocks = [
        (match["language"].lower(), match["code"].strip("\n")) for match in _BLOCK.finditer(reply)
    ]
    python = [code for language, code in blocks if language in _PYTHON]
    chosen = python or [code for language, code in blocks if not language]
    chosen = [code for code in chosen if code.strip()]
    return "\n\n".join(chosen) + "\n" if chosen else None


def without_code(reply: str) -> str:
    """Returns the text before the first block."""
    first = _BLOCK.search(reply)
    return (reply if first is None else reply[: first.start()]).strip()
