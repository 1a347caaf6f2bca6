"""The soft interrupt: the effect of the host's SIGINT, depending on the runner's state.

While user code runs, it raises inside it. While an item of the harvest is made, it ends that item
and skips the rest. In between, it only makes the rest be skipped, so that no frame is lost
half-way.
"""

import _signal

from _belljar.protocol import door

IDLE, USER, ITEM = 0, 1, 2
SIGINT = 2


class Interrupted(KeyboardInterrupt):
    """Raised by the host's interrupt; looks like `KeyboardInterrupt`."""


Interrupted.__name__ = Interrupted.__qualname__ = "KeyboardInterrupt"
Interrupted.__module__ = "builtins"


class _State:
    __slots__ = ("frame_line", "line", "phase", "stopped")

    def __init__(self):
        self.phase = IDLE
        self.stopped = False
        self.line = None
        self.frame_line = lambda frame: None


STATE = _State()


def check():
    """Raise an interrupt that arrived before there was code to raise it in."""
    if STATE.stopped:
        raise Interrupted


def forget():
    """Clear the state of the last run; writes only if there is something to clear."""
    if STATE.stopped:
        STATE.stopped = False
    if STATE.line is not None:
        STATE.line = None


def _handle(_signum, frame):
    phase = STATE.phase
    if phase == USER:
        if STATE.line is None:
            STATE.line = STATE.frame_line(frame)
            _tell(STATE.line)
    else:
        STATE.stopped = True
        if phase != ITEM:
            return
    try:
        raise Interrupted
    except Interrupted as error:
        # Raising it again adds no entry for this frame, so it never appears: neither where Python
        # prints ignored exceptions, in destructors and exit handlers, nor where the code prints a
        # caught exception.
        error.__traceback__ = None
        raise


def _tell(line):
    """Report the line now: code that swallows the interrupt is killed before it returns."""
    try:
        door.send(b"i", {"line": line})
    except Exception:
        return


def install():
    """Handle SIGINT, even if the code has installed its own handler."""
    if _signal.getsignal(SIGINT) is not _handle:
        _signal.signal(SIGINT, _handle)
