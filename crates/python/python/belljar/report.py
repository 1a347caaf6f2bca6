"""Describes an outcome as text for a model.

All functions take an outcome as a document (`Outcome.to_dict()`, or the JSON of the command and the
server), so that they work with outcomes from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 20_000
"""Characters of a report, unless the caller says otherwise."""

# Kinds of errors that stop code from outside.
_STOPPED = ("timeout", "fuel", "output", "interrupted")


def describe(document: Mapping[str, Any], *, limit: int = MAX_TEXT) -> str:
    """Describes a run as text: its output, or the error, its place, and advice.

    For a failed run, the first line is its `error`. Long text is shortened in the middle to at most
    `limit` characters.
    """
    parts = _failure(document) if document["error"] else _success(document)
    return shorten("\n\n".join(part.strip("\n") for part in parts if part.strip()), limit)


def error_text(document: Mapping[str, Any]) -> str:
    """Returns standard error, with the error appended unless it is already there."""
    stderr = str(document["stderr"])
    error = document["error"]
    if not error:
        return stderr
    notes = []
    message = str((document["error_detail"] or {}).get("message") or error)
    if error not in stderr and message not in stderr:
        notes.append(error)
    hint = (document["error_detail"] or {}).get("hint")
    if hint:
        notes.append(f"hint: {hint}")
    if stderr and notes and not stderr.endswith("\n"):
        stderr += "\n"
    return stderr + "".join(f"{note}\n" for note in notes)


def shorten(text: str, limit: int) -> str:
    """Shortens `text` to at most `limit` characters, keeping its beginning and end."""
    if len(text) <= limit:
        return text
    left_out = f"\n[... {len(text) - limit} characters left out ...]\n"
    kept = max(limit - len(left_out), 0)
    head = kept * 2 // 3
    return text[:head] + left_out + text[len(text) - (kept - head) :]


def _success(document: Mapping[str, Any]) -> list[str]:
    parts = [document["stdout"], _titled("stderr", document["stderr"]), *_things(document)]
    return parts if any(part.strip() for part in parts) else ["(no output)"]


def _failure(document: Mapping[str, Any]) -> list[str]:
    detail = document["error_detail"] or {}
    parts = [str(document["error"])]
    if detail.get("kind") in _STOPPED and detail.get("line") is not None:
        parts[0] += f"\nline {detail['line']} was running"
    if detail.get("hint"):
        parts[0] += f"\nhint: {detail['hint']}"
    for violation in detail.get("violations") or ():
        parts[0] += f"\nline {violation['line']}: {violation['message']}"
    traceback = str(detail.get("traceback") or "")
    stderr = str(document["stderr"])
    parts.append(stderr if traceback.strip() in stderr else f"{traceback}\n{stderr}")
    if document["stdout"].strip():
        parts.append(_titled("output so far", document["stdout"]))
    parts += _things(document)
    if document.get("interpreter_restarted"):
        parts.append("The session is in the state that it had before this run.")
    return parts


def _things(document: Mapping[str, Any]) -> list[str]:
    parts = []
    if document["result"] is not None:
        result = document["result"]
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        parts.append(f"result: {shown}")
    for frame in document["dataframes"]:
        parts.append(f"{frame['name']}:\n{frame['repr']}")
    if document["files"]:
        names = ", ".join(f"{file['path']} ({file['size']} bytes)" for file in document["files"])
        parts.append(f"files: {names}")
    return parts


def _titled(title: str, text: str) -> str:
    return f"{title}:\n{text}" if text.strip() else ""
