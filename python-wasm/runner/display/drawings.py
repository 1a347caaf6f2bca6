"""Finds out when a file that the code has saved is what a capture would draw again.

Most code saves a figure and leaves it open. Redrawing it takes as long as saving it did.
matplotlib does not tell of every change of a figure, such as of a tick's label. So a file counts
only if nothing follows in the code that could change the figure: it prints or shows, and ends.
"""

import builtins
import sys
from io import FileIO as _File
from opcode import opmap as _opcodes

from _belljar.source import namespaces, sources

_MOST = 4 << 20  # bytes of a file
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_OPTIONS = frozenset(("dpi", "format"))
_PLAIN = frozenset((bool, float, int, str, type(None)))
_modules = sys.modules
_print = builtins.print

_CACHE, _POP, _EXTENDED = (_opcodes[name] for name in ("CACHE", "POP_TOP", "EXTENDED_ARG"))
_NAME, _ATTRIBUTE = _opcodes["LOAD_NAME"], _opcodes["LOAD_ATTR"]
_INTRINSIC = _opcodes.get("CALL_INTRINSIC_1")
_PRINT = 1  # INTRINSIC_PRINT, which passes a value to `sys.displayhook`
_HARMLESS = frozenset(
    _opcodes.get(name)
    for name in (
        "BUILD_STRING CACHE CALL CALL_KW CONVERT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC "
        "LOAD_COMMON_CONSTANT LOAD_CONST LOAD_SMALL_INT NOP POP_TOP PUSH_NULL RETURN_CONST "
        "RETURN_VALUE"
    ).split()
)


class _State:
    __slots__ = ("show",)

    def __init__(self):
        self.show = None  # our replacement of `pyplot.show`


STATE = _State()


def read(figure, path, options, resolution):
    """The bytes of the file that `print_figure` wrote to `path` with `options`.

    None unless a capture as PNG with `resolution` would draw the same.
    """
    try:
        settings = _modules["matplotlib"].rcParams
        is_usual = (
            _OPTIONS.issuperset(options)
            and not settings["savefig.transparent"]
            and _dpi(figure, options.get("dpi"), settings) == _dpi(figure, resolution, settings)
            and not is_watched(figure.canvas)
            and not is_arranged(figure)
        )
        if not is_usual or not _only_shows(sys._getframe(1)):
            return None
        with _File(path) as file:
            data = file.read(_MOST + 1)
    except Exception:
        return None
    return data if len(data) <= _MOST and data.startswith(_SIGNATURE) else None


def _dpi(figure, given, settings):
    value = settings["savefig.dpi"] if given is None else given
    return figure.dpi if type(value) is str else value


def is_watched(canvas):
    """Whether drawing calls functions of the code."""
    return bool(canvas.callbacks.callbacks.get("draw_event"))


def is_arranged(figure):
    """Whether drawing moves the axes of the figure."""
    engine = figure.get_layout_engine()
    # `tight_layout()` leaves an engine that does nothing.
    idle = getattr(_modules.get("matplotlib.layout_engine"), "PlaceHolderLayoutEngine", None)
    return engine is not None and type(engine) is not idle


def _only_shows(frame):
    """Whether the code only prints plain values and shows figures after this call of matplotlib."""
    library = _modules["matplotlib"].__file__.rpartition("/")[0] + "/"
    while frame is not None and frame.f_code.co_filename.startswith((library, "<belljar>/")):
        frame = frame.f_back
    if frame is None or frame.f_globals is not namespaces.GLOBALS:
        return False
    program = frame.f_code
    return sources.is_root(program) and _is_harmless(program, frame.f_lasti + 2)


def _is_harmless(program, start):
    rest, high, is_first = program.co_code[start:], 0, True
    for operation, low in zip(rest[::2], rest[1::2], strict=True):
        if is_first and operation != _CACHE:
            # A call that takes the result could change the figure.
            if operation not in (_POP, _INTRINSIC):
                return False
            is_first = False
        number = high | low
        high = number << 8 if operation == _EXTENDED else 0
        if operation == _NAME:
            if not _is_plain(program.co_names[number]):
                return False
        elif operation == _ATTRIBUTE:
            if program.co_names[number >> 1] != "show":
                return False
        elif operation == _INTRINSIC:
            if number != _PRINT:
                return False
        elif operation != _EXTENDED and operation not in _HARMLESS:
            return False
    return True


def _is_plain(name):
    """Whether a variable is pyplot, the builtin `print`, or a value whose text is its own."""
    missing = object()
    value = namespaces.GLOBALS.get(name, missing)
    if value is missing:
        return name == "print" and builtins.__dict__.get(name) is _print
    pyplot = _modules.get("matplotlib.pyplot")
    return type(value) in _PLAIN or (value is pyplot and pyplot.show is STATE.show)
