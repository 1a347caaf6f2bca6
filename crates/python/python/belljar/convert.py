"""Converts outcomes to the formats of OpenAI, Anthropic and Gemini for results of code.

A cloud service cannot call an engine on this machine, so the model's code is run here and the
result is returned in the format of the service's own sandbox. Every function takes an outcome as a
document (`Outcome.to_dict()`); `read` returns the bytes of an artifact by path, for figures. The
methods `to_openai`, `to_anthropic` and `to_gemini` of outcomes and runs call these functions.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from .report import describe, error_text

Document = Mapping[str, Any]
Read = Callable[[str], bytes]

# Pictures that all three accept; other figures (SVG, plotly's) stay files.
_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}

# Kinds of errors that stop code that has not failed itself.
_STOPPED = ("timeout", "fuel", "output", "interrupted", "waiting")


def to_openai(
    document: Document,
    *,
    call_id: str | None = None,
    container_id: str = "cntr_belljar",
    read: Read | None = None,
) -> dict[str, Any]:
    """Converts to an item of OpenAI's Responses API.

    With the `call_id` of a function call, it is the output of that call, text and figures; without
    it, a `code_interpreter_call`, as from OpenAI's own sandbox.
    """
    pictures = list(_pictures(document, read))
    if call_id is not None:
        content: list[dict[str, Any]] = [{"type": "input_text", "text": describe(document)}]
        content += [
            {"type": "input_image", "image_url": _data_uri(picture), "detail": "auto"}
            for picture in pictures
        ]
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    logs = document["stdout"] + error_text(document)
    outputs: list[dict[str, Any]] = [{"type": "logs", "logs": logs}] if logs else []
    outputs += [{"type": "image", "url": _data_uri(picture)} for picture in pictures]
    kind = (document["error_detail"] or {}).get("kind")
    return {
        "type": "code_interpreter_call",
        "id": f"ci_{uuid.uuid4().hex}",
        "container_id": container_id,
        "code": document["code"],
        "status": _status(kind),
        "outputs": outputs,
    }


def to_anthropic(
    document: Document,
    tool_use_id: str | None = None,
    *,
    file_ids: Mapping[str, str] | None = None,
    read: Read | None = None,
) -> dict[str, Any]:
    """Converts to a block of Anthropic's Messages API.

    With the id of a client tool, it is a `tool_result`, text and figures; without an id, or with
    that of a server tool (`srvtoolu_`), a `code_execution_tool_result`. In the latter, files are
    referenced by the ids of their uploads: `file_ids`, by path.
    """
    if tool_use_id is None:
        tool_use_id = f"srvtoolu_{uuid.uuid4().hex}"
    if not tool_use_id.startswith("srvtoolu_"):
        content: list[dict[str, Any]] = [{"type": "text", "text": describe(document)}]
        content += [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            }
            for media_type, data in _pictures(document, read)
        ]
        return {
            "type": "tool_result",
            "tool_use_id": tool_use_id,
            "is_error": not document["success"],
            "content": content,
        }
    return {
        "type": "code_execution_tool_result",
        "tool_use_id": tool_use_id,
        "content": _anthropic_result(document, file_ids or {}),
    }


def to_gemini(
    document: Document,
    *,
    call_id: str | None = None,
    name: str | None = None,
    read: Read | None = None,
) -> list[dict[str, Any]]:
    """Converts to parts of a Gemini content: the code, its result, and the figures.

    With the `name` of a declared function, and the `call_id` of its call if any, they are the
    response to that call instead.
    """
    pictures = [
        {"inlineData": {"mimeType": media_type, "data": data}}
        for media_type, data in _pictures(document, read)
    ]
    if name is not None:
        key = "output" if document["success"] else "error"
        response: dict[str, Any] = {"name": name, "response": {key: describe(document)}}
        if call_id is not None:
            response["id"] = call_id
        return [{"functionResponse": response}, *pictures]
    code: dict[str, Any] = {"language": "PYTHON", "code": document["code"]}
    result = {
        "outcome": _gemini_outcome(document),
        "output": document["stdout"] + error_text(document),
    }
    if call_id is not None:
        code["id"] = result["id"] = call_id
    return [{"executableCode": code}, {"codeExecutionResult": result}, *pictures]


def exit_code(document: Document) -> int:
    """The exit status as in a shell: 0, the code's own status, 124 for a timeout, or 1."""
    detail = document["error_detail"] or {}
    if document["success"]:
        return 0
    if detail.get("kind") == "timeout":
        return 124
    return int(detail.get("exit_status") or 1)


def pictures(document: Document, read: Read | None = None) -> list[tuple[str, str]]:
    """The pictures of a run: media type and base64 data of each."""
    return list(_pictures(document, read))


def _pictures(document: Document, read: Read | None) -> Iterator[tuple[str, str]]:
    for plot in document["plots"]:
        media_type = _PICTURES.get(PurePosixPath(plot["path"]).suffix.lower())
        if media_type is None:
            continue
        if uri := plot.get("base64_uri"):
            yield media_type, uri.partition(",")[2]
        elif read is not None:
            yield media_type, base64.b64encode(read(plot["path"])).decode("ascii")


def _data_uri(picture: tuple[str, str]) -> str:
    return f"data:{picture[0]};base64,{picture[1]}"


def _status(kind: str | None) -> str:
    if kind is None:
        return "completed"
    return "incomplete" if kind in _STOPPED else "failed"


def _anthropic_result(document: Document, file_ids: Mapping[str, str]) -> dict[str, Any]:
    detail = document["error_detail"] or {}
    if detail.get("kind") == "timeout":
        return _anthropic_error("execution_time_exceeded")
    if detail.get("kind") == "policy" or detail.get("type") == "EmptyCode":
        return _anthropic_error("invalid_tool_input")
    return {
        "type": "code_execution_result",
        "stdout": document["stdout"],
        "stderr": error_text(document),
        "return_code": exit_code(document),
        "content": [
            {"type": "code_execution_output", "file_id": file_ids[file["path"]]}
            for file in document["files"]
            if file["path"] in file_ids
        ],
    }


def _anthropic_error(code: str) -> dict[str, Any]:
    return {"type": "code_execution_tool_result_error", "error_code": code}


def _gemini_outcome(document: Document) -> str:
    if document["success"]:
        return "OUTCOME_OK"
    if (document["error_detail"] or {}).get("kind") == "timeout":
        return "OUTCOME_DEADLINE_EXCEEDED"
    return "OUTCOME_FAILED"
