"""Standard streams on the descriptors 0, 1 and 2.

Output is unbuffered, as under `python -u`: an instance may be killed at any moment, and output
written by then must have left the guest. The streams are created while the image is baked; a run
recreates them only if an earlier run of its session replaced or closed them, or has read from
standard input.
"""

import io
import sys
from posix import write as _write

_NAMES = ("stdin", "stdout", "stderr")
_STDIN = ("utf-8", "replace")
_made = {}


def _open(fd, name):
    if fd == 0:
        raw = io.BufferedReader(io.FileIO(fd, "r", closefd=False))
        stream = io.TextIOWrapper(raw, encoding=_STDIN[0], errors=_STDIN[1])
        raw.raw.name = name
        stream.mode = "r"
        return stream
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(
        raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )
    stream.mode = "w"
    return stream


def install():
    """Recreate all three and install them."""
    for fd, name in enumerate(_NAMES):
        try:
            stream = _open(fd, f"<{name}>")
        except OSError:
            stream = None  # closed for good by the code: Python's own choice in this case
        _made[name] = stream
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def refresh(stdin_used):
    """For a further run of a session: our streams, open and empty."""
    stdin = _made["stdin"]
    if stdin_used or not _is_open(stdin) or (stdin.encoding, stdin.errors) != _STDIN:
        try:
            _made["stdin"] = _open(0, "<stdin>")
        except OSError:
            _made["stdin"] = None
    if not _are_in_place():
        for name in _NAMES:
            setattr(sys, name, _made[name])
            setattr(sys, f"__{name}__", _made[name])
    # Only now: dropping a wrapper of the code closes the stream below it.
    for name in ("stdout", "stderr"):
        if not _is_open(_made[name]):
            install()
            return


def _are_in_place():
    try:
        return (
            sys.stdin is sys.__stdin__ is _made["stdin"]
            and sys.stdout is sys.__stdout__ is _made["stdout"]
            and sys.stderr is sys.__stderr__ is _made["stderr"]
        )
    except AttributeError:
        return False


def _is_open(stream):
    try:
        # As its buffer says.
        return stream is not None and not stream.closed
    except ValueError:
        return False  # the code took its buffer away


def write_error(text):
    """Write to file descriptor 2, even if `sys.stderr` was replaced."""
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    try:
        while data:
            data = data[_write(2, data) :]
    except OSError:
        return  # closed by the code


def replaced():
    """Output streams that the code has installed instead of ours, to flush at the end."""
    found = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is not None and stream is not _made[name]:
            found.append(stream)
    return found


def is_ours(thing):
    """Whether it is one of our streams, or the buffer under one."""
    for stream in _made.values():
        if stream is not None and (thing is stream or thing is stream.buffer):
            return True
    return False
