"""A scripted model behind the HTTP APIs of OpenAI and Anthropic."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = list[dict[str, Any]]


class ScriptedModel:
    """Serves `POST /v1/chat/completions` and `POST /v1/messages`, streamed or not.

    The script is a list of answers, or a function from the messages to an answer. An answer is
    text, or a dict of arguments for a call of the last tool in the request. `requests` has all
    requests.
    """

    def __init__(self, script: Iterable[Any] | Callable[[Messages], Any]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer = script if callable(script) else _one_by_one(script)
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)
                if "messages" not in request:
                    self.send_error(404)
                    return
                with model._lock:
                    model.requests.append(request)
                    answer = model._answer(request["messages"])
                speak = _anthropic if self.path.endswith("/messages") else _openai
                content_type, content = speak(request, answer)
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def code(text: str, thought: str = "") -> str:
    """A reply with a block of code."""
    return f"{thought}\n```python\n{text.strip()}\n```\n"


def _one_by_one(script: Iterable[Any]) -> Callable[[Messages], Any]:
    answers = iter(script)
    return lambda messages: next(answers)


def _openai(request: dict[str, Any], answer: Any) -> tuple[str, bytes]:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    frame = {"id": "chatcmpl-1", "created": 1, "model": request["model"]}
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if isinstance(answer, dict):
        called = {
            "name": request["tools"][-1]["function"]["name"],
            "arguments": json.dumps(answer),
        }
        call = {"index": 0, "id": "call_1", "type": "function", "function": called}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    if request.get("stream"):
        pieces = [message]
        if isinstance(answer, str):
            pieces = [{"content": piece} for piece in _pieces(answer)]
        chunks = [{"index": 0, "delta": piece} for piece in pieces]
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        frame["object"] = "chat.completion.chunk"
        events = [{**frame, "choices": [chunk]} for chunk in chunks]
        events.append({**frame, "choices": [], "usage": usage})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode()
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    content = {**frame, "object": "chat.completion", "choices": [choice], "usage": usage}
    return "application/json", json.dumps(content).encode()


def _anthropic(request: dict[str, Any], answer: str) -> tuple[str, bytes]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "text", "text": answer}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    if not request.get("stream"):
        return "application/json", json.dumps(message).encode()
    begun = {**message, "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    deltas = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": piece},
        }
        for piece in _pieces(answer)
    ]
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "text/event-stream", "".join(lines).encode()


def _pieces(text: str, size: int = 12) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
