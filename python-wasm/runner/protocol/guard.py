"""Isolates the items of the harvest: a failure or a loop affects only its own item."""

from _belljar.protocol import door, interrupt
from _belljar.protocol.inspecting import text_of, type_name

_STATE = interrupt.STATE
_MESSAGE = 500


def attempt(what, func, *args):
    """`func(*args)`, or None if it raised or was interrupted, which is reported to the host.

    `what` names the item in that note. After an interrupt no more items are attempted.
    """
    if _STATE.stopped:
        return None
    try:
        try:
            _STATE.phase = interrupt.ITEM
            return func(*args)
        finally:
            _STATE.phase = interrupt.IDLE
    except interrupt.Interrupted:
        reason = "interrupted"
    except BaseException as error:
        reason = quietly(describe, error) or type_name(type(error))
    note(f"{what}: {reason}")
    return None


def quietly(func, *args):
    """Like `attempt`, for items with a substitute: a failure is not reported."""
    if _STATE.stopped:
        return None
    try:
        try:
            _STATE.phase = interrupt.ITEM
            return func(*args)
        finally:
            _STATE.phase = interrupt.IDLE
    except BaseException:
        return None


def failure_of(func, *args):
    """The exception raised by the code's `func(*args)`, or None."""
    try:
        try:
            _STATE.phase = interrupt.ITEM
            func(*args)
        finally:
            _STATE.phase = interrupt.IDLE
    except BaseException as error:
        return error
    return None


def describe(error):
    """`Type: message` of an exception, which may be hostile."""
    name = type_name(type(error))
    try:
        message = text_of(error, _MESSAGE, str)[0]
    except interrupt.Interrupted:
        raise
    except BaseException:
        message = "<exception str() failed>"
    return f"{name}: {message}" if message else name


def note(message):
    """Report to the host that part of the harvest failed."""
    try:
        door.send(b"w", {"message": message})
    except BaseException:
        # The host rejected the note (its limits); the run still has to end.
        return
