"""Calls of the host's tools: started, awaited and cancelled.

A call starts when it is made. Without an event loop its caller waits in the host. With one the
caller gets a future, and the idle loop waits in the host for answers or its next timer (see
`loops`).
"""

import math
from binascii import a2b_base64 as _from_base64

from _belljar.protocol import door
from _belljar.protocol.inspecting import text_of, type_name
from _belljar.values import building, typed, values

_DEPTH = 100
_MAX_BYTES = 16 << 20
_MAX_ITEMS = 1 << 20
_MAX_OPEN = 256
_TYPED = typed.Limits(32, 250_000, _MAX_BYTES, _MAX_BYTES)

# Futures of open calls, by number.
_open = {}


class ToolError(Exception):
    """A tool call failed. `kind` is the reason, `tool` the name, and `message` the tool's message.

    Kinds: unknown_tool, invalid_arguments, denied, tool_error, timeout, cancelled, too_large,
    budget_exceeded.
    """

    def __init__(self, message, kind="tool_error", tool=None):
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.tool = tool

    def __str__(self):
        about = self.kind if self.tool is None else f"{self.tool}: {self.kind}"
        return self.message if self.kind == "tool_error" else f"{about}: {self.message}"


ToolError.__module__ = "tools"


class _Strict(values.Converter):
    """JSON values, or an error: values are not truncated or replaced by their `repr`."""

    def value(self, value, depth):
        found = self._dispatch(value, depth)
        if self.truncated:
            raise ToolError("the arguments are too large, or nested too deep", "too_large")
        return found

    def repr(self, value):
        raise TypeError(f"a {type_name(type(value))} has no form in JSON")

    def number(self, value):
        if not math.isfinite(value):
            raise TypeError("NaN and infinities have no form in JSON")
        return super().number(value)

    def _enter(self, owner, depth):
        if any(owner is one for one in self._open):
            raise TypeError(f"a {type_name(type(owner))} holds itself")
        return super()._enter(owner, depth)


def _frame(name, arguments):
    try:
        return door.encode({"name": name, "arguments": arguments})
    except RecursionError:
        problem = "they are nested too deep, or hold themselves"
    except (TypeError, ValueError):
        converter = _Strict(values.Limits(_DEPTH, _MAX_ITEMS, _MAX_BYTES))
        try:
            plain = converter.value(arguments, 0)
            return door.encode({"name": name, "arguments": plain})
        except ToolError as error:
            error.tool = name
            raise
        except RecursionError:
            problem = "they are nested too deep, or hold themselves"
        except (TypeError, ValueError) as error:
            problem = text_of(error, 500, str)[0]
    raise ToolError(f"the arguments cannot be sent: {problem}", "invalid_arguments", name)


def _typed_frame(name, arguments):
    try:
        payload = typed.encode_whole(arguments, _TYPED)
    except typed.TooLargeError:
        raise ToolError("the arguments are too large", "too_large", name) from None
    except TypeError as error:
        problem = text_of(error, 500, str)[0]
        message = f"the arguments cannot be sent: {problem}"
        raise ToolError(message, "invalid_arguments", name) from None
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded + payload


def _ask(op, frame, name):
    try:
        return door.ask(op + frame)
    except MemoryError:
        raise
    except Exception:
        message = "the call is larger than a message to the host may be, or its answer than memory"
        raise ToolError(message, "too_large", name) from None


def _value(reply, name):
    if "ok" in reply:
        return reply["ok"]
    if "typed" in reply:
        return building.decode(_from_base64(reply["typed"]))
    raise ToolError(reply["message"], reply["kind"], name)


def call(name, arguments, is_typed=False):
    """The answer of a tool."""
    if is_typed:
        reply = _ask(b"C", _typed_frame(name, arguments), name)
    else:
        reply = _ask(b"c", _frame(name, arguments), name)
    return _value(_settled(reply, name), name)


def _settled(reply, name):
    """An answer. An interrupted caller that still wants it waits again."""
    while "id" in reply:
        answers = _ask(b"a", door.encode({"ids": [reply["id"]], "seconds": None}), name)
        if answers:
            return answers[0][1]
    return reply


def answer_of(name, number):
    """The answer of a started call, unparsed."""
    return _settled({"id": number}, name)


def value_of(reply, name):
    """The content of an answer."""
    return _value(reply, name)


def begin(name, arguments, is_typed=False):
    """The number of a started call."""
    if is_typed:
        reply = _ask(b"B", _typed_frame(name, arguments), name)
    else:
        reply = _ask(b"b", _frame(name, arguments), name)
    if "id" not in reply:
        _value(reply, name)
    return reply["id"]


def future_of(name, arguments, loop, is_typed=False):
    """A future of `loop` for the answer; cancelling it cancels the call."""
    future = loop.create_future()
    try:
        number = begin(name, arguments, is_typed)
    except ToolError as error:
        future.set_exception(error)
        return future
    _open[number] = (future, name)

    def forget(_):
        if _open.pop(number, None) is not None:
            _ask(b"k", door.encode({"id": number}), name)

    future.add_done_callback(forget)
    return future


def has_open(loop):
    """Whether the loop has open calls."""
    return bool(_open) and bool(_numbers(loop))


def _numbers(loop):
    """The loop's calls that are still awaited."""
    return [n for n, (f, _) in _open.items() if f.get_loop() is loop and not f.done()]


def wait(loop, seconds):
    """Wait until calls of the loop are answered, or until a timeout; None waits forever."""
    frame = door.encode({"ids": _numbers(loop)[:_MAX_OPEN], "seconds": seconds})
    for number, reply in _ask(b"a", frame, None):
        future, name = _open.pop(number)
        try:
            found = _value(reply, name)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(found)


def forget():
    """For a further run: calls of an earlier one will not be answered."""
    if not _open:
        return
    left = list(_open.values())
    _open.clear()
    for future, name in left:
        if not future.done() and not future.get_loop().is_closed():
            why = "the run that made this call has ended"
            future.set_exception(ToolError(why, "cancelled", name))


def read_line(prompt):
    """A line for `input()`; None at the end of the input."""
    reply = _settled(_ask(b"n", door.encode({"prompt": prompt}), "input"), "input")
    if "ok" not in reply:
        raise OSError(f"there is no answer: {reply['message']}")
    return reply["ok"]
