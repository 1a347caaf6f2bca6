"""The soft interrupt: what the host's SIGINT does, by what the runner is doing.

While user code runs, it raises inside it. While one item of the harvest is made, it ends that
item and skips the rest. In between, it only says that the rest is to be skipped, so that no
frame is lost half-way.
"""

import _signal

from _belljar.protocol import door

IDLE, USER, ITEM = 0, 1, 2
SIGINT = 2


class Interrupted(KeyboardInterrupt):
    """Raised by the host's interrupt; apart from being ours it looks like `KeyboardInterrupt`."""


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
    """Raise an interrupt that came before there was code to raise it in."""
    if STATE.stopped:
        raise Interrupted


def forget():
    """Forget what a run was told; a write only where there is something to forget."""
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
        # Raised again it gets no entry for this frame, which therefore shows nowhere: not where
        # Python prints by itself what it ignores, in destructors and exit handlers, and not
        # where the code prints what it has caught.
        error.__traceback__ = None
        raise


def _tell(line):
    """Name the line now: code that swallows the interrupt is stopped before it comes back."""
    try:
        door.send(b"i", {"line": line})
    except Exception:
        return


def install():
    """Take SIGINT, also back from code that took it for itself."""
    if _signal.getsignal(SIGINT) is not _handle:
        _signal.signal(SIGINT, _handle)
