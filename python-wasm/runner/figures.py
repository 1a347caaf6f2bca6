"""Figures: captured when they are shown and when the code has ended, as plots/plot_{n}.

The functions that show and save are replaced when their library is imported. A capture is
drawn into memory first, so that a figure that fails to draw leaves no file, and it never
writes over a file of the code's own.
"""

import sys
from io import BytesIO as _Buffer
from io import IOBase as _Stream
from os import PathLike as _PathLike
from os import fspath as _fspath
from warnings import catch_warnings as _catch_warnings

from _belljar import guard, paths, streams
from _belljar.door import send
from _belljar.inspecting import type_name

_FOLDER = "plots"
_modules = sys.modules


class _State:
    """What the run asked for, and how far the numbers have come."""

    __slots__ = ("capturing", "cwd", "left", "next", "options", "refused", "shown")

    def __init__(self):
        self.options = None
        self.cwd = ""
        self.next = 1
        self.left = 0
        self.refused = 0
        self.capturing = False
        self.shown = None  # the figure that was current when it was shown, until another begins


STATE = _State()


def begin(options, cwd, session):
    STATE.options = options if options["capture"] else None
    STATE.cwd = cwd
    STATE.left = options["max"]
    if not session:
        STATE.next = 1  # in an interpreter that is not sealed, others have counted already
    STATE.refused = 0
    STATE.shown = None


def forget():
    """Start over: what an image's warm-up counted is not a session's."""
    STATE.next = 1
    STATE.shown = None


def harvest(close):
    """Capture what is still open, in the order of the figures' numbers.

    With `close` they are closed, as in a notebook: the next run draws on a new figure.
    """
    helpers = _modules.get("matplotlib._pylab_helpers")
    figures = getattr(getattr(helpers, "Gcf", None), "figs", None)
    if figures and STATE.options is not None:
        for number, manager in in_order(figures):
            what = f"Figure {number} cannot be drawn"
            guard.attempt(what, lambda manager=manager: capture(manager.canvas.figure))
        if close:
            guard.attempt("The figures cannot be closed", helpers.Gcf.destroy_all)
    STATE.shown = None
    if STATE.refused:
        most = STATE.options["max"]
        guard.note(f"{STATE.refused} figures were not captured: the limit is {most}")


def in_order(figures):
    """Pairs of number and manager, by number; what is no number comes last."""

    def place(item):
        number = item[0]
        return (0, number) if type(number) is int else (1, 0)

    return sorted(figures.items(), key=place)


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
    drawn = _Buffer()
    STATE.capturing = True
    try:
        with _catch_warnings(record=True) as caught:
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
    drawn = _Buffer()
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
    folder = f"{STATE.cwd.rstrip('/')}/{_FOLDER}"
    paths.make_directory(folder)
    while True:
        stem = f"plot_{STATE.next}"
        STATE.next += 1
        names = {kind: f"{folder}/{stem}.{kind}" for kind in parts}
        if not any(paths.is_taken(name) for name in names.values()):
            break
    for kind, name in names.items():
        _write_file(name, parts[kind])
        send(b"p", {"path": f"{_FOLDER}/{stem}.{kind}", "shown": True})


def _write_file(path, data):
    try:
        with open(path, "xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
    except BaseException:
        paths.remove(path)
        raise


def saved(target, kind):
    """Tell the host of a figure that the code saved itself, in a format that its name may lack."""
    if STATE.options is None or STATE.capturing:
        return
    if isinstance(target, _Stream):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, _PathLike)):
        return
    path = _fspath(target)
    if not isinstance(path, str):
        return
    if not paths.extension(path):
        path = f"{path.rstrip('.')}.{kind}"
    path = paths.absolute(path)
    root = f"{STATE.cwd.rstrip('/')}/"
    if path.startswith(root):
        send(b"p", {"path": path.removeprefix(root), "shown": False})
