"""The stream of a run on a server: its events, and calls of the caller's functions."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Any

from . import _belljar
from ._errors import BelljarError
from ._http import Aborted, Call, Link, dumped, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._stream import Stream

# Events on their way to an event loop; with more, the run waits.
_ON_THE_WAY = 256


class Watch:
    """What the caller does while a run is under way."""

    def __init__(
        self,
        link: Link,
        on_event: Callable[[Any], object] | None,
        tools: dict[str, _belljar.Tool],
        answerer: Any,
        calls: _belljar.Calls,
        stream: str | None,
    ) -> None:
        self._link = link
        # The id by which the server keeps the stream.
        self.stream = stream
        self._on_event = on_event
        self._tools = tools
        self._answerer = answerer
        self._calls = calls

    @classmethod
    def of(cls, link: Link, document: Any, extras: dict[str, Any]) -> Watch | None:
        """Adds what a request says of it; None where the caller does nothing."""
        tools = extras.get("tools") or ()
        live = {tool.name: tool for tool in tools if tool.start is not None}
        deferred = [described(tool) for tool in tools if tool.start is None]
        on_event, answerer = extras.get("on_event"), extras.get("answerer")
        if deferred:
            document.add({"tools": deferred})
        if not live and on_event is None and answerer is None:
            return None
        asked: dict[str, Any] = {"events": on_event is not None}
        if live:
            asked["client_tools"] = [described(tool) for tool in tools if tool.start is not None]
        if answerer is not None:
            asked["client_input"] = True
        stream = uuid.uuid4().hex if link.retries > 0 else None
        if stream is not None:
            asked["stream"] = stream
        document.add(asked)
        calls = _belljar.Calls(extras.get("tool_limits"))
        return cls(link, on_event, live, answerer, calls, stream)

    def outcome(self, call: Call, stream: Stream) -> Any:
        """Reads the stream to its end, which is the outcome."""
        open_calls: dict[str, Callable[[], object]] = {}
        tell = _teller(call, self._on_event)
        found = None
        try:
            for name, data in stream.events():
                if name == "outcome":
                    found = data
                elif name == "problem":
                    raise refused(data)
                elif name == "call":
                    self._start(call, open_calls, data, self._called)
                elif name == "input":
                    self._start(call, open_calls, data, self._prompted)
                elif name == "call_cancelled":
                    open_calls.pop(data["id"], _nothing)()
                else:
                    tell(data)
            tell.settle()
        except Aborted:
            if tell.error is not None:
                raise tell.error from None
            raise
        finally:
            stream.close(is_over=found is not None)
            for cancel in open_calls.values():
                cancel()
        return found

    def _start(
        self,
        call: Call,
        open_calls: dict[str, Callable[[], object]],
        data: dict[str, Any],
        checked: Callable[[dict[str, Any]], tuple[Any, dict[str, Any]]],
    ) -> None:
        reply = Reply(self._link, data["id"], self._calls)
        try:
            start, arguments = checked(data)
            open_calls[data["id"]] = start(arguments, reply, call.loop)
        except ValueError as error:
            # A limit forbids the call, or its arguments do not match the schema.
            reply.fail(str(error))
        except Exception as error:
            reply.fail(type(error).__name__)

    def _called(self, data: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        tool = self._tools[data["name"]]
        return tool.start, self._calls.arguments(tool, dumped(data["arguments"]).decode())

    def _prompted(self, data: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._calls.prompted(data["prompt"])
        return self._answerer, {"prompt": data["prompt"]}


class Reply:
    """Receives the answer to a call, once."""

    __slots__ = ("_calls", "_id", "_link")

    def __init__(self, link: Link, id: str, calls: _belljar.Calls) -> None:
        self._link = link
        self._calls = calls
        self._id: str | None = id

    def answer(self, value: Any) -> None:
        self._send(b'{"answer":' + self._calls.answer(value).encode() + b"}")

    def fail(self, message: str) -> None:
        self._send(dumped({"error": message}))

    def deny(self, message: str) -> None:
        self._send(dumped({"error": message, "denied": True}))

    def _send(self, body: bytes) -> None:
        id, self._id = self._id, None
        if id is not None:
            # Not on this thread, which may be an event loop's.
            self._link.later(lambda: _answered(self._link, id, body))


def described(tool: Any) -> dict[str, Any]:
    """A tool as the server takes it."""
    told = tool.described("mcp")
    about = {
        "name": tool.name,
        "description": told.get("description") or "",
        "schema": told["inputSchema"],
    }
    if tool.start is None:
        return about
    about["typed"] = True
    if tool.timeout is not None:
        about["timeout"] = tool.timeout
    return about


def _answered(link: Link, id: str, body: bytes) -> None:
    try:
        link.json(Call(), "POST", f"/v1/calls/{id}", body)
    except BelljarError as error:
        # The code no longer waits, or the connection of its run is lost as well.
        level = logging.DEBUG if error.code == "call.not_found" else logging.WARNING
        logging.getLogger("belljar").log(level, "an answer did not arrive: %s", error)


def _nothing() -> None:
    pass


class _Here:
    """Tells events on this thread."""

    def __init__(self, function: Callable[[Any], object] | None) -> None:
        self._function = function
        self.error: BaseException | None = None

    def __call__(self, event: Any) -> None:
        if self._function is not None:
            try:
                self._function(event)
            except BaseException as error:
                self.error = error
                raise

    def settle(self) -> None:
        pass


class _OnLoop(_Here):
    """Tells events on the event loop that awaits the run."""

    def __init__(self, call: Call, function: Callable[[Any], object] | None) -> None:
        super().__init__(function)
        self._call = call
        self._room = threading.BoundedSemaphore(_ON_THE_WAY)

    def __call__(self, event: Any) -> None:
        if self._function is None:
            return
        while not self._room.acquire(timeout=0.1):
            self._check()
        self._check()
        assert self._call.loop is not None
        self._call.loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: Any) -> None:
        try:
            if self.error is None and not self._call.aborted.is_set():
                assert self._function is not None
                self._function(event)
        except BaseException as error:
            self.error = error
            self._call.abort()
        finally:
            self._room.release()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error
        if self._call.aborted.is_set():
            raise Aborted

    def settle(self) -> None:
        """Waits until all events are told."""
        for _ in range(_ON_THE_WAY):
            while not self._room.acquire(timeout=0.1):
                self._check()
        if self.error is not None:
            raise self.error


def _teller(call: Call, function: Callable[[Any], object] | None) -> _Here:
    return _Here(function) if call.loop is None else _OnLoop(call, function)
