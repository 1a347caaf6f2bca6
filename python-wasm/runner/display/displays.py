"""Sends displayed values as events."""

from _belljar.protocol import door, guard

# Limit for a run; the host limits the number of frames of any kind.
_DISPLAYS = 10_000
# The host's limit for a frame, less the overhead around the forms.
_FRAME_BYTES = 8 * 1024 * 1024 - 65536


class _State:
    """The settings of the run, and its remaining displays."""

    __slots__ = ("left", "on", "refused")

    def __init__(self):
        self.on = False
        self.left = 0
        self.refused = 0


STATE = _State()


def begin(on):
    """Begin a run: `on` says whether events are consumed."""
    STATE.on = on
    STATE.left = _DISPLAYS
    STATE.refused = 0


def harvest():
    """Report how many displays were dropped."""
    if STATE.refused:
        guard.note(f"{STATE.refused} displays were dropped: the limit is {_DISPLAYS:,}")


def send(kind, data, metadata=None, name=None):
    """Send the forms of a value. If they are too large together, the largest are left out."""
    sizes = {form: len(door.encode(content)) for form, content in data.items()}
    while sum(sizes.values()) > _FRAME_BYTES:
        largest = max(sizes, key=sizes.get)
        guard.note(f"A displayed value's form {largest!r} is left out: together they are too large")
        del sizes[largest]
    frame = {"kind": kind, "data": {form: data[form] for form in sizes}, "metadata": metadata or {}}
    if name is not None:
        frame["display_id"] = name
    _send(frame)


def clear(wait):
    """Clear the previous output."""
    _send({"kind": "clear", "wait": wait})


def _send(frame):
    if STATE.left <= 0:
        STATE.refused += 1
        return
    STATE.left -= 1
    try:
        door.send(b"o", frame)
    except Exception as error:
        guard.note(f"A value cannot be displayed: {guard.describe(error)}")
