"""What is displayed, as frames for whoever takes events."""

from _belljar.protocol import door, guard

# A run may send so many; the host takes a bounded number of frames of any kind.
_DISPLAYS = 10_000
# The host's bound on one frame, less what is around the forms.
_FRAME_BYTES = 8 * 1024 * 1024 - 65536


class _State:
    """What the run asked for, and how much may still be displayed."""

    __slots__ = ("left", "on", "refused")

    def __init__(self):
        self.on = False
        self.left = 0
        self.refused = 0


STATE = _State()


def begin(on):
    """Begin a run: `on` says whether somebody takes what is displayed."""
    STATE.on = on
    STATE.left = _DISPLAYS
    STATE.refused = 0


def harvest():
    """Tell what was not displayed."""
    if STATE.refused:
        guard.note(f"{STATE.refused} displays were dropped: the limit is {_DISPLAYS:,}")


def send(kind, data, metadata=None, name=None):
    """Send the forms of one value; of what is too large together, the largest are left out."""
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
    """Have what was shown so far removed."""
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
