"""The options that a pool sends to its workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from belljar import _options
from belljar._errors import unknown

# Handlers in the caller's process, which runs on workers cannot call.
_AT_HOME = ("input", "on_event")


def travelling(
    options: Mapping[str, Any], of: str = "map", known: frozenset[str] = _options.RUN_OPTIONS
) -> dict[str, Any]:
    """Options for another machine: the contents of local files are read."""
    named = _options.flat(of, options).items()
    held = {name: value for name, value in named if _options.is_given(name, value)}
    for name in held:
        if name not in known:
            raise TypeError(unknown(of, name, known))
        if name in _AT_HOME:
            raise TypeError(f"{name} is a function of this process, which a worker cannot call")
    if "files" in held:
        held["files"] = {path: _content(value) for path, value in held["files"].items()}
    return held


def _content(value: Any) -> str | bytes:
    content = _options.content(value)
    if isinstance(content, str):
        return content
    if hasattr(content, "__fspath__"):
        with open(os.fspath(content), "rb") as file:
            return file.read()
    return bytes(content)
