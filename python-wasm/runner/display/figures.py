"""Figures: captured when shown and at the end of the code, as plots/plot_{n}.

If events are consumed, each figure is displayed as well.

The functions that show and save are replaced when their library is imported. A figure is first
drawn into memory, so that a failure leaves no file. Existing files are never overwritten.
"""

import sys
from io import BytesIO as _Buffer
from io import IOBase as _Stream
from os import PathLike as _PathLike
from os import fspath as _fspath
from warnings import catch_warnings as _catch_warnings

from _belljar.display import bundles, charts, displays, drawings
from _belljar.protocol import guard, paths, streams
from _belljar.protocol.door import decode, send
from _belljar.protocol.inspecting import is_kind, text_of, type_name
from _belljar.source import originals

_FOLDER = "plots"
_PLOTLY_TEXT = 1_000  # characters; the whole of it is all of its data
_modules = sys.modules


class _State:
    """The settings of the run, and the next number."""

    __slots__ = (
        "capturing",
        "displayed",
        "left",
        "next",
        "options",
        "refused",
        "roots",
        "run",
        "saves",
        "shown",
    )

    def __init__(self):
        self.options = None  # set if figures are saved or displayed
        self.saves = False
        self.displayed = {}  # by identity: the figure, what was drawn of it, whether that is saved
        self.run = object()  # told from others by its identity
        self.roots = [""]  # the workspace, by each of its paths
        self.next = 1
        self.left = 0
        self.refused = 0
        self.capturing = False
        self.shown = None  # the figure that was current when it was shown, until another begins


STATE = _State()


class _Picture:
    """Replaces a figure's `stale_callback` until it is called: until the figure changes."""

    __slots__ = ("drawing", "path", "run", "shown", "usual")

    def __init__(self, path, shown, drawing, usual):
        self.path = path  # of the file, if it is one
        self.drawing = None if shown else drawing  # what a capture would draw, if that is known
        self.run = STATE.run
        self.shown = shown  # it was captured, and not only saved by the code
        self.usual = usual

    def __call__(self, figure, stale):
        figure.stale_callback = self.usual
        if self.usual is not None:
            self.usual(figure, stale)


def picture_of(figure):
    """The captured pictures of the current state of a figure: shown, saved, or neither."""
    found = getattr(figure, "stale_callback", None)
    return found if type(found) is _Picture and found.run is STATE.run else None


def _pictured(figure, before, path, shown, drawing=None):
    """Record a picture of the current state, in addition to one from `before`."""
    usual = getattr(figure, "stale_callback", None)
    if type(usual) is _Picture:
        usual = usual.usual
    if before is not None:
        path, shown = before.path or path, shown or before.shown
        drawing = drawing or before.drawing
    figure.stale_callback = _Picture(path, shown, drawing, usual)


def begin(options, roots, session):
    STATE.saves = options["capture"]
    STATE.options = options if STATE.saves or displays.STATE.on else None
    STATE.displayed.clear()
    STATE.run = object()
    STATE.roots = roots
    STATE.left = options["max"]
    if not session:
        STATE.next = 1  # in an interpreter that is not sealed, others have counted already
    STATE.refused = 0
    STATE.shown = None


def forget():
    """Start over: figures of an image's warm-up do not count in a session."""
    STATE.next = 1
    STATE.shown = None


def harvest(close):
    """Capture all open figures, in the order of their numbers.

    With `close`, close them afterwards, as in a notebook: the next run draws on a new figure.
    """
    helpers = _modules.get("matplotlib._pylab_helpers")
    figures = getattr(getattr(helpers, "Gcf", None), "figs", None)
    if figures and STATE.options is not None:
        originals.needed()
        for number, manager in in_order(figures):
            what = f"Figure {number} cannot be drawn"
            guard.attempt(what, capture_changed, manager.canvas.figure)
        if close:
            guard.attempt("The figures cannot be closed", helpers.Gcf.destroy_all)
    pyplot = _modules.get("matplotlib.pyplot")
    if pyplot is not None and STATE.saves:
        guard.attempt("The figures cannot be asked for", _harvest_stand_ins, pyplot)
    STATE.shown = None
    STATE.displayed.clear()
    if STATE.refused:
        most = STATE.options["max"]
        guard.note(f"{STATE.refused} figures were not captured: the limit is {most}")


def _harvest_stand_ins(pyplot):
    """Save the figures that a fake `matplotlib.pyplot` of the code says are open.

    Code under test without matplotlib may have one. All that is known of its figures is that
    `savefig` takes a path.
    """
    if getattr(pyplot, "_pylab_helpers", None) is not None:
        return
    originals.needed()
    numbers = getattr(pyplot, "get_fignums", None)
    figure = getattr(pyplot, "figure", None)
    if callable(numbers) and callable(figure):
        for number in numbers():
            if not _may_add():
                break
            guard.attempt("A figure cannot be saved", _save_stand_in, figure, number)


def _save_stand_in(figure, number):
    [(path, name)] = _next_names(["png"])
    figure(number).savefig(path)
    if paths.is_taken(path):
        send(b"p", {"path": name, "shown": True})


def in_order(figures):
    """Pairs of number and manager, sorted by number; others come last."""

    def place(item):
        number = item[0]
        return (0, number) if type(number) is int else (1, 0)

    return sorted(figures.items(), key=place)


def show(kind, value, name=None):
    """Show a figure or an image; False for any other value.

    A matplotlib figure that is the value of the last expression is only displayed: it is saved at
    the end with all open figures.
    """
    if STATE.options is None:
        return False
    found = _library_class("matplotlib.figure", "Figure")
    if found and is_kind(value, found):
        capture(value, kind, name)
        return True
    found = _library_class("PIL.Image", "Image")
    if found and is_kind(value, found):
        capture_image(value, kind, name)
        return True
    found = _library_class("plotly.basedatatypes", "BaseFigure")
    if found and is_kind(value, found):
        capture_plotly(value, kind, name)
        return True
    return False


def _library_class(module, name):
    found = getattr(_modules.get(module), name, None)
    return found if issubclass(type(found), type) else None


def capture(figure, kind="display", name=None, drawn=None):
    """Draw a matplotlib figure, write it as the next plot, and display it.

    `drawn`: the format and bytes, if it is drawn already.
    """
    if STATE.options is None or not _may_add():
        return
    before = picture_of(figure)
    form, drawn = drawn or _drawn(figure, before)
    saves = STATE.saves and kind != "result"
    STATE.displayed[id(figure)] = (figure, drawn, saves)
    forms = _figure_forms(figure, form, drawn)
    written = _publish({form: drawn}, forms, kind, name, saves, before)
    _pictured(figure, before, next(iter(written), None), True)


def is_known(figure):
    """Whether a figure was captured in this run, in any state."""
    return id(figure) in STATE.displayed


def capture_changed(figure):
    """Whether a figure was captured in this run, but not in its current state."""
    if STATE.options is None:
        return
    displayed, before, saved = STATE.displayed.get(id(figure), (None, None, False))
    if displayed is None:
        capture(figure)
        return
    picture = picture_of(figure)
    if picture is not None and picture.shown:
        form, drawn = STATE.options["format"], before
    else:
        form, drawn = _drawn(figure, picture)
    if drawn != before:
        capture(figure, drawn=(form, drawn))
    elif STATE.saves and not saved and _may_add():
        write({form: drawn})


def _drawn(figure, before):
    """The figure's format and bytes. `before`: earlier pictures of its current state."""
    kind = STATE.options["format"]
    if before is not None and before.drawing is not None and kind == "png":
        return kind, before.drawing
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
    return kind, drawn.getvalue()


def _figure_forms(figure, form, drawn):
    def forms():
        yield bundles.PLAIN, bundles.plain(figure)
        if form == "svg":
            yield "image/svg+xml", drawn.decode()
        else:
            yield "image/png", bundles.base64(drawn)
        chart = _chart_of(figure) if STATE.options.get("charts") else None
        if chart is not None:
            yield charts.FORM, chart

    return forms


def _chart_of(figure):
    try:
        return charts.of(figure)
    except Exception as error:
        guard.note(f"The data of a chart cannot be read: {guard.describe(error)}")
        return None


def _tell(caught):
    """Report warnings of a capture, such as for a missing glyph, without a place in the code."""
    lines = dict.fromkeys(f"{type_name(one.category)}: {one.message}\n" for one in caught)
    streams.write_error("".join(lines))


def capture_image(image, kind="display", name=None):
    """Write a PIL image as the next plot, and display it."""
    if STATE.options is None or not _may_add():
        return
    drawn = _Buffer()
    if image.mode not in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    image.save(drawn, "PNG")

    def forms():
        yield bundles.PLAIN, bundles.plain(image)
        yield "image/png", bundles.base64(drawn.getbuffer())

    _publish({"png": drawn.getbuffer()}, forms, kind, name, STATE.saves)


def capture_plotly(figure, kind="display", name=None):
    """Write a plotly figure as the next plot, as data and as a page, and display it."""
    if STATE.options is None or not _may_add():
        return
    data = figure.to_json().encode()
    page = figure.to_html(include_plotlyjs="cdn").encode()

    def forms():
        yield bundles.PLAIN, text_of(figure, _PLOTLY_TEXT)[0]
        yield "application/vnd.plotly.v1+json", decode(data)
        yield "text/html", figure.to_html(include_plotlyjs="cdn", full_html=False)

    _publish({"json": data, "html": page}, forms, kind, name, STATE.saves)


def _publish(parts, forms, kind, name, saves, before=None):
    """Save a drawing, and display it if displays are consumed. Returns the paths."""
    paths_written = write(parts, before) if saves else []
    if displays.STATE.on:
        metadata = {"belljar": {"paths": paths_written}} if paths_written else {}
        displays.send(kind, dict(forms()), metadata, name)
    return paths_written


def _may_add():
    if STATE.left <= 0:
        STATE.refused += 1
        return False
    STATE.left -= 1
    return True


def write(parts, before=None):
    """Write one plot, in one or more formats, under the next number free for all of them.

    Returns the paths in the workspace. `before`: earlier pictures of the same figure in this run.
    """
    written = []
    for (path, name), data in zip(_next_names(parts), parts.values(), strict=True):
        _write_file(path, data)
        written.append(name)
        _send_plot(name, True, before)
    return written


def _send_plot(name, shown, before):
    repeats = {"repeats": before.path} if before is not None and before.path else {}
    send(b"p", {"path": name, "shown": shown, **repeats})


def _next_names(kinds):
    """The next plot's files, one for each format: absolute paths, and those in the workspace."""
    folder = f"{STATE.roots[0].rstrip('/')}/{_FOLDER}"
    paths.make_directory(folder)
    while True:
        stem = f"plot_{STATE.next}"
        STATE.next += 1
        names = [(f"{folder}/{stem}.{kind}", f"{_FOLDER}/{stem}.{kind}") for kind in kinds]
        if not any(paths.is_taken(path) for path, _ in names):
            return names


def _write_file(path, data):
    try:
        with open(path, "xb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
    except BaseException:
        paths.remove(path)
        raise


def saved(figure, before, target, kind, options):
    """Report a figure that the code saved itself, in a format that its name may lack.

    `before`: earlier pictures of the same figure in this run. `options`: None, or how it was saved.
    """
    if not STATE.saves or STATE.capturing:
        return
    if isinstance(target, _Stream):
        # What it wrote may be elsewhere, or behind other data.
        target, options = getattr(target, "name", None), None
    if not isinstance(target, (str, _PathLike)):
        return
    path = _fspath(target)
    if not isinstance(path, str):
        return
    if not paths.extension(path):
        path = f"{path.rstrip('.')}.{kind}"
    path = paths.absolute(path)
    for root in STATE.roots:
        inside = path.removeprefix(f"{root.rstrip('/')}/")
        if inside != path:
            _send_plot(inside, False, before)
            drawing = None
            if options is not None:
                drawing = drawings.read(figure, path, options, STATE.options["dpi"])
            _pictured(figure, before, inside, False, drawing)
            return
