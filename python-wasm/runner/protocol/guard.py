"""One item of the harvest at a time: what fails or loops costs only itself."""

from _belljar.protocol import door, interrupt
from _belljar.protocol.inspecting import text_of, type_name

_STATE = interrupt.STATE
_MESSAGE = 500


def attempt(what, func, *args):
    """`func(*args)`, or None when it raised or was interrupted, which the host is told.

    `what` names the item in that note. After an interrupt nothing is attempted any more.
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
    """As `attempt`, for what has a substitute: a failure is not reported."""
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
    """The exception with which the code's own `func(*args)` fails, or None."""
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
    """`Type: message` of an exception that may be hostile itself."""
    name = type_name(type(error))
    try:
        message = text_of(error, _MESSAGE, str)[0]
    except interrupt.Interrupted:
        raise
    except BaseException:
        message = "<exception str() failed>"
    return f"{name}: {message}" if message else name


def note(message):
    """Tell the host that something of the harvest failed."""
    try:
        door.send(b"w", {"message": message})
    except BaseException:
        # The door itself refused (its limits); the run still has to come to its end.
        return
