"""Figures: captured when they are shown and when the code has ended, as plots/plot_{n}.

The functions that show and save are replaced when their library is imported. A capture is
drawn into memory first, so that a figure that fails to draw leaves no file, and it never
writes over a file of the code's own.
"""

import io
import os
import sys
import warnings

from _belljar import guard, streams
from _belljar.door import send
from _belljar.inspecting import type_name

_FOLDER = "plots"
_modules = sys.modules


class _State:
    """What the run asked for, and how far the numbers have come."""

    __slots__ = ("capturing", "cwd", "left", "next", "options", "refused")

    def __init__(self):
        self.options = None
        self.cwd = ""
        self.next = 1
        self.left = 0
        self.refused = 0
        self.capturing = False


STATE = _State()


def begin(options, cwd, session):
    STATE.options = options if options["capture"] else None
    STATE.cwd = cwd
    STATE.left = options["max"]
    if not session:
        STATE.next = 1  # in an interpreter that is not sealed, others have counted already
    STATE.refused = 0


def forget():
    """Start over: what an image's warm-up counted is not a session's."""
    STATE.next = 1


def harvest(close):
    """Capture what is still open, in the order of the figures' numbers.

    With `close` they are closed, as in a notebook: the next run draws on a new figure.
    """
    helpers = _modules.get("matplotlib._pylab_helpers")
    figures = getattr(getattr(helpers, "Gcf", None), "figs", None)
    if figures and STATE.options is not None:
        for number, manager in sorted(figures.items()):
            what = f"Figure {number} cannot be drawn"
            guard.attempt(what, lambda manager=manager: capture(manager.canvas.figure))
        if close:
            guard.attempt("The figures cannot be closed", helpers.Gcf.destroy_all)
    if STATE.refused:
        most = STATE.options["max"]
        guard.note(f"{STATE.refused} figures were not captured: the limit is {most}")


def capture(figure):
    """Draw a matplotlib figure and write it as the next plot."""
    if STATE.options is None or not _may_add():
        return
    kind = STATE.options["format"]
    options = {"format": kind}
    if STATE.options["dpi"] is not None:
        options["dpi"] = STATE.options["dpi"]
    if kind == "svg":
        options["metadata"] = {"Date": None}
    drawn = io.BytesIO()
    STATE.capturing = True
    try:
        with warnings.catch_warnings(record=True) as caught:
            figure.savefig(drawn, **options)
    finally:
        STATE.capturing = False
    _tell(caught)
    write({kind: drawn.getbuffer()})


def _tell(caught):
    """Warnings of a capture, such as of a missing glyph, without a place: it is not the code's."""
    lines = dict.fromkeys(f"{type_name(one.category)}: {one.message}\n" for one in caught)
    streams.write_error("".join(lines))


def capture_image(image):
    """Write a PIL image as the next plot."""
    if STATE.options is None or not _may_add():
        return
    drawn = io.BytesIO()
    if image.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    image.save(drawn, "PNG")
    write({"png": drawn.getbuffer()})


def capture_plotly(figure):
    """Write a plotly figure as the next plot: its data, and a page that shows it."""
    if STATE.options is None or not _may_add():
        return
    data = figure.to_json().encode()
    page = figure.to_html(include_plotlyjs="cdn").encode()
    write({"json": data, "html": page})


def _may_add():
    if STATE.left <= 0:
        STATE.refused += 1
        return False
    STATE.left -= 1
    return True


def write(parts):
    """Write one plot, in one or more formats, under the next number free for all of them."""
    folder = os.path.join(STATE.cwd, _FOLDER)
    os.makedirs(folder, exist_ok=True)
    while True:
        stem = f"plot_{STATE.next}"
        STATE.next += 1
        paths = {kind: os.path.join(folder, f"{stem}.{kind}") for kind in parts}
        if not any(os.path.lexists(path) for path in paths.values()):
            break
    for kind, path in paths.items():
        _write_file(path, parts[kind])
        send(b"p", {"path": f"{_FOLDER}/{stem}.{kind}", "shown": True})


def _write_file(path, data):
    try:
        with open(path, "xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
    except BaseException:
        _remove(path)
        raise


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        return


def saved(target, extension):
    """Tell the host of a figure that the code saved itself."""
    if STATE.options is None or STATE.capturing:
        return
    if isinstance(target, io.IOBase):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, os.PathLike)):
        return
    path = os.fspath(target)
    if not isinstance(path, str):
        return
    if not os.path.splitext(path)[1]:
        path = f"{path.rstrip('.')}.{extension}"
    path = os.path.normpath(os.path.join(os.getcwd(), path))
    root = STATE.cwd.rstrip("/") + "/"
    if path.startswith(root):
        send(b"p", {"path": path.removeprefix(root), "shown": False})
