"""Requests to a server, from options: JSON, and files beside it."""

from __future__ import annotations

import json
import math
import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from . import _belljar
from ._errors import BelljarError, make
from ._http import dumped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Extras = Mapping[str, Any]

# Larger files go apart from the request's JSON: in a form, or into a session's workspace.
_INLINE = 256 << 10
# Seconds that a run may take where it names no limit: the largest that a server allows by default.
LONGEST_RUN = 600.0
_TOOL_LIMITS = ("calls", "argument_bytes", "answer_bytes", "total_bytes", "timeout")


class Document:
    """A request as JSON. Typed values are added as the text that they are."""

    def __init__(self, asked: dict[str, Any], usual: float = LONGEST_RUN) -> None:
        self._asked = asked
        self._values: dict[str, str] = {}
        timeout = asked.get("timeout", usual)
        # Without a limit of its own it may take as long as the server allows.
        self.silence: float = math.inf if timeout is None else timeout

    def add(self, more: Mapping[str, Any]) -> None:
        self._asked.update(more)

    def typed(self, is_typed: bool | None) -> None:
        """Whether the result is typed; None leaves it out."""
        capture = {**self._asked.get("capture", {})}
        capture.pop("typed", None)
        if is_typed is not None:
            capture["typed"] = is_typed
        self._asked["capture"] = capture
        if not capture:
            del self._asked["capture"]

    def variables(self, values: Mapping[str, Any]) -> None:
        self._values = {name: _belljar.to_tagged(value) for name, value in values.items()}

    def text(self, without: Iterable[str] = ()) -> bytes:
        """The JSON, without these files."""
        asked = self._asked
        if without:
            files = {path: held for path, held in asked["files"].items() if path not in without}
            asked = {**asked, "files": files}
        files = {path: _inline(held) for path, held in asked.get("files", {}).items()}
        try:
            text = dumped({**asked, "files": files} if files else _less(asked, "files"))
        except ValueError as error:
            raise refused_option("options", f"JSON has no infinity, and no NaN: {error}") from None
        if self._values:
            pairs = (f"{json.dumps(name)}:{value}" for name, value in self._values.items())
            text = text[:-1] + b',"set":{' + ",".join(pairs).encode() + b"}}"
        return text


def _less(asked: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: held for key, held in asked.items() if key != name}


def request_of(code: str, asked: Any, extras: Extras, usual: float = LONGEST_RUN) -> Document:
    """A request from options, without what has to do with the caller's functions. ``usual`` is how
    long it may take if it does not say.
    """
    if not isinstance(code, str):
        raise TypeError(f"code is text, not {type(code).__name__}")
    document = Document({**(asked or {}), "code": code}, usual)
    if "mounts" in extras:
        raise refused_option(
            "mounts", "code elsewhere does not read the caller's directories: use files"
        )
    document.typed(not extras.get("plain"))
    if "stdin" in extras:
        held = extras["stdin"]
        try:
            text = held if isinstance(held, str) else bytes(held).decode()
        except UnicodeDecodeError:
            raise refused_option("stdin", "a server takes standard input as UTF-8 alone") from None
        document.add({"stdin": text})
    if "variables" in extras:
        document.variables(extras["variables"])
    if "files" in extras:
        document.add({"files": extras["files"]})
    if "tool_limits" in extras:
        for name in extras["tool_limits"]:
            if name not in _TOOL_LIMITS:
                raise TypeError(f"tool_limits has no key {name!r}")
        document.add({"tool_limits": extras["tool_limits"]})
    return document


def own_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """A session's own options, as the server names them."""
    asked = {
        name: own[name] for name in ("labels", "lifetime", "idle", "total_fuel") if name in own
    }
    if "client" in own:
        asked["name"] = own["client"]
    if "history" in own:
        asked["history_runs"], asked["history_bytes"] = own["history"]
    if "lease" in own:
        asked["lease"] = dict(zip(("seconds", "then"), own["lease"], strict=True))
    return asked


def body_of(content: Any) -> Any:
    """The content of a file, to send: bytes, or what opens a file of this machine."""
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray)):
        return bytes(content)
    return opener(os.fspath(content))


def opener(path: str) -> Callable[[], BinaryIO]:
    # A file that cannot be read is the caller's mistake, and known before anything is sent.
    open(path, "rb").close()
    return lambda: open(path, "rb")


def _inline(content: Any) -> Any:
    if isinstance(content, str):
        return content
    from base64 import b64encode

    if isinstance(content, (bytes, bytearray)):
        return {"base64": b64encode(content).decode()}
    return {"base64": b64encode(Path(content).read_bytes()).decode()}


def large_files(extras: Extras) -> list[str]:
    """Files that go apart from the JSON."""

    def size(content: Any) -> int:
        held = isinstance(content, (str, bytes, bytearray))
        return len(content) if held else os.stat(content).st_size

    return [path for path, held in extras.get("files", {}).items() if size(held) > _INLINE]


def form_of(document: Document, extras: Extras, large: list[str]) -> tuple[Any, str]:
    """A form with the request, and these files."""
    mark = uuid.uuid4().hex
    parts: list[tuple[bytes, Any]] = [(_head(mark, "request"), document.text(without=large))]
    parts += [(_head(mark, "file", path), extras["files"][path]) for path in large]

    def made() -> BinaryIO:
        form = tempfile.SpooledTemporaryFile(max_size=8 << 20)  # noqa: SIM115
        for head, content in parts:
            form.write(head)
            body = content if isinstance(content, bytes) else body_of(content)
            if callable(body):
                with body() as file:
                    while piece := file.read(_INLINE):
                        form.write(piece)
            else:
                form.write(body)
            form.write(b"\r\n")
        form.write(f"--{mark}--\r\n".encode())
        form.seek(0)
        return form  # type: ignore[return-value]

    return made, f"multipart/form-data; boundary={mark}"


def _head(mark: str, name: str, file: str | None = None) -> bytes:
    if file is not None and any(char in file for char in '"\r\n\\'):
        raise refused_option(
            "files", f"the name of a large file has a quote or a line break: {file!r}"
        )
    named = f'; filename="{file}"' if file is not None else ""
    return f'--{mark}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode()


def refused_option(field: str, message: str) -> BelljarError:
    return make(message, "refused", reasons=[(field, "unsupported", message)])
