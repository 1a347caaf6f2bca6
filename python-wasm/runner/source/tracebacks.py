"""Describes exceptions: type, message, line and the traceback as CPython prints it.

The standard module does the formatting, in a private copy with private builtins, because the failed
code may have replaced anything in the shared one. Frames of the runner are removed. If an exception
is hostile, plain text replaces the parts that fail.
"""

import importlib.util
import linecache
import types

from _belljar.protocol.inspecting import is_kind, text_of, type_module, type_name, type_qualname
from _belljar.protocol.interrupt import Interrupted
from _belljar.source import sources

OURS = "<belljar>/"
MESSAGE_LIMIT = 8 * 1024
TRACEBACK_LIMIT = 64 * 1024
_STDERR_LIMIT = 1024 * 1024
_FAILED = "<exception str() failed>"
# The standard module's advice on a missing module is wrong here: there are no such packages.
_NO_SITE = (
    ". Site initialization is disabled, did you forget to add the site-packages directory to "
    "sys.path or to enable your virtual environment?"
)
_FRAMES = -1000  # the innermost ones, the same number that the interpreter itself prints

traceback_of = BaseException.__traceback__.__get__
_cause_of = BaseException.__cause__.__get__
_context_of = BaseException.__context__.__get__
_suppresses = BaseException.__suppress_context__.__get__
_lineno_of = SyntaxError.lineno.__get__


class _Lines:
    """Replaces `linecache` in the private copy: user code by identity, files as usual."""

    getline = staticmethod(lambda name, number, _=None: _file_line(name, number))
    checkcache = staticmethod(linecache.checkcache)
    lazycache = staticmethod(linecache.lazycache)

    @staticmethod
    def _getline_from_code(code, number):
        return _line(sources.source_of(code) or "", number)


def _file_line(name, number):
    if name != sources.FILENAME:
        return linecache.getline(name, number)
    # If frames carry their code object, the other function is asked next.
    return "" if _BY_CODE else _line(sources.latest(), number)


def _line(source, number):
    lines = source.splitlines()
    return lines[number - 1] + "\n" if 0 < number <= len(lines) else ""


def _private_copy():
    spec = importlib.util.find_spec("traceback")
    module = types.ModuleType("traceback")
    module.__spec__ = spec
    module.__builtins__ = __builtins__
    exec(spec.loader.get_code("traceback"), module.__dict__)
    module.linecache = _Lines
    return module


_traceback = _private_copy()
_BY_CODE = hasattr(linecache, "_getline_from_code")


class Report:
    """An exception as plain values.

    Data that needs no foreign code is available at once; `read` asks the exception for the rest,
    which may raise or never return, and leaves a substitute then.
    """

    __slots__ = ("line", "message", "text", "type")

    def __init__(self, error):
        self.type = type_name(type(error))
        self.line = _line_of(error)
        self.message = _FAILED
        self.text = _plain(error, _FAILED)

    def read(self, error):
        self.message = message_of(error)
        self.text = _format(error)

    def stderr(self):
        return cut_middle(self.text, _STDERR_LIMIT)

    def traceback(self):
        return cut_middle(self.text, TRACEBACK_LIMIT)


def message_of(error):
    try:
        return text_of(error, MESSAGE_LIMIT, str)[0]
    except Interrupted:
        raise
    except BaseException:
        return _FAILED


def _line_of(error):
    """The innermost line of the current code; for a syntax error in it, its line."""
    trace = traceback_of(error)
    line = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == sources.FILENAME and sources.is_current(code):
            line = trace.tb_lineno
        trace = trace.tb_next
    if line is None and is_kind(error, SyntaxError):
        number = _lineno_of(error)
        line = number if type(number) is int else None
    return line


def _format(error):
    try:
        entry = _traceback.TracebackException(
            type(error), error, outermost(error), limit=_FRAMES, compact=True
        )
        _clean(entry)
        return "".join(entry.format())
    except Interrupted:
        raise
    except BaseException:
        return _plain(error, message_of(error))


def before(error):
    """The exception's cause, or its context if that is to be shown."""
    cause = _cause_of(error)
    context = None if _suppresses(error) else _context_of(error)
    return cause, context


def last_lines(error):
    """The lines about the exception itself: its type and message, its notes, and hints."""
    try:
        entry = _traceback.TracebackException(type(error), error, None, compact=True)
        _clean(entry)
        return "".join(entry.format_exception_only())
    except Interrupted:
        raise
    except BaseException:
        return f"{type_name(type(error))}: {message_of(error)}\n"


def outermost(error):
    """The traceback without the frames that lead to the user's code: the runner, an event loop."""
    start = trace = traceback_of(error)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == sources.FILENAME:
            return trace
        trace = trace.tb_next
    return start


def _clean(entry):
    """Drop the runner's frames, and advice that does not apply."""
    # Chains are finite here: the formatter cuts cycles when it reads the exception.
    stack = [entry]
    while stack:
        entry = stack.pop()
        if entry is None:
            continue
        if entry.stack is not None:
            entry.stack[:] = [f for f in entry.stack if OURS not in f.filename]
            if not entry.stack:
                entry.stack = None  # nothing is left to head with "Traceback"
        if type(entry._str) is str:
            entry._str = entry._str.removesuffix(_NO_SITE)
        stack += [entry.__cause__, entry.__context__, *(entry.exceptions or ())]


def _plain(error, message):
    """A simple traceback, for an exception that breaks the usual formatting."""
    lines = ["Traceback (most recent call last):\n"]
    trace = outermost(error)
    while trace is not None and len(lines) < -_FRAMES:
        code = trace.tb_frame.f_code
        if OURS not in code.co_filename:
            where = f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n'
            lines.append(where)
            text = _line(sources.source_of(code) or "", trace.tb_lineno).strip()
            if text:
                lines.append(f"    {text}\n")
        trace = trace.tb_next
    kind = type(error)
    module = type_module(kind)
    name = type_qualname(kind)
    if module not in ("__main__", "builtins"):
        name = f"{module}.{name}"
    lines.append(f"{name}: {message}\n" if message else f"{name}\n")
    return "".join(lines)


def chain(error, most=8):
    """The exception and its causes or contexts, nearest first."""
    found = []
    while error is not None and len(found) < most and all(error is not one for one in found):
        found.append(error)
        error = _cause_of(error) or _context_of(error)
    return found


def cut_middle(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    gone = len(text) - 2 * half
    return f"{text[:half]}\n... {gone} characters left out ...\n{text[-half:]}"
