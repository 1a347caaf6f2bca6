"""IPython's pretty protocol: values lay out their text with `_repr_pretty_`.

A value receives a printer, and passes it text, possible line breaks, and groups: a group is on one
line if it fits, and is otherwise broken at each of its own breaks.
"""

import contextlib

from _belljar.protocol import guard
from _belljar.protocol.inspecting import exact_str, is_kind, mro_of, text_of, type_name

_WIDTH = 79
_DEPTH = 60
_ITEMS = 1_000
NAME = "_repr_pretty_"
_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})")}


class _Break:
    __slots__ = ("indent", "is_forced", "text")

    def __init__(self, text, indent, is_forced):
        self.text = text
        self.indent = indent
        self.is_forced = is_forced


class _Group:
    """Texts, breaks and groups; the width on one line, None if it contains a line break."""

    __slots__ = ("items", "width")

    def __init__(self):
        self.items = []
        self.width = 0

    def add(self, item, width):
        self.items.append(item)
        self.width = None if width is None or self.width is None else self.width + width


class _TooLongError(Exception):
    """The text is longer than the limit."""


class Printer:
    """The printer for `_repr_pretty_`."""

    max_width = _WIDTH
    newline = "\n"

    def __init__(self, limit):
        self.indentation = 0
        self._groups = [_Group()]
        self._left = limit
        self._within = []  # the values that are being printed, outermost first

    def text(self, obj):
        """Text without a line break."""
        text = exact_str(obj)
        self._left -= len(text) + 1
        if self._left < 0:
            raise _TooLongError
        for number, line in enumerate(text.split("\n")):
            if number:
                self._groups[-1].add(_Break("", 0, True), None)
            self._groups[-1].add(line, len(line))

    def breakable(self, sep=" "):
        """A possible line break; `sep` if it is not used."""
        self._break(exact_str(sep), False)

    def break_(self):
        """A forced line break."""
        self._break("", True)

    def _break(self, text, is_forced):
        self._left -= len(text) + 1
        if self._left < 0:
            raise _TooLongError
        width = None if is_forced else len(text)
        self._groups[-1].add(_Break(text, self.indentation, is_forced), width)

    def begin_group(self, indent=0, open=""):
        if open:
            self.text(open)
        self._groups.append(_Group())
        self.indentation += indent

    def end_group(self, dedent=0, close=""):
        if len(self._groups) < 2:
            raise ValueError("there is no group to end")
        self.indentation -= dedent
        group = self._groups.pop()
        self._groups[-1].add(group, group.width)
        if close:
            self.text(close)

    @contextlib.contextmanager
    def group(self, indent=0, open="", close=""):
        self.begin_group(indent, open)
        try:
            yield
        finally:
            self.end_group(indent, close)

    @contextlib.contextmanager
    def indent(self, indent):
        self.indentation += indent
        try:
            yield
        finally:
            self.indentation -= indent

    def flush(self):
        """Does nothing: the text is laid out at the end."""

    def pretty(self, obj):
        """A value: by its own method, containers item by item, else by its `repr`."""
        is_cycle = any(one is obj for one in self._within)
        if len(self._within) >= _DEPTH:
            self.text("...")
            return
        self._within.append(obj)
        try:
            method = method_of(obj)
            if method is not None:
                method(obj, self, is_cycle)
            elif is_cycle and type(obj) in (*_BRACKETS, dict):
                self.text("{...}" if type(obj) is dict else "[...]")
            elif type(obj) is dict and obj:
                self._items("{", "}", list(obj.items()), self._pair)
            elif type(obj) in _BRACKETS and obj:
                start, end = _BRACKETS[type(obj)]
                self._items(start, end, list(obj), self.pretty, type(obj) is tuple)
            else:
                self.text(text_of(obj, max(self._left, 1))[0])
        finally:
            self._within.pop()

    def _pair(self, pair):
        key, value = pair
        self.pretty(key)
        self.text(": ")
        self.pretty(value)

    def _items(self, start, end, items, put, is_tuple=False):
        with self.group(len(start), start, end):
            for number, item in enumerate(items):
                if number:
                    self.text(",")
                    self.breakable()
                if number >= _ITEMS:
                    self.text("...")
                    return
                put(item)
            if is_tuple and len(items) == 1:
                self.text(",")

    def result(self):
        """The laid out text."""
        while len(self._groups) > 1:
            self.end_group()
        parts = []
        _lay_out(self._groups[0], 0, parts)
        return "".join(parts)


def _lay_out(group, column, parts):
    """Put the group's text into `parts`. Returns the column after it."""
    is_flat = group.width is not None and column + group.width <= _WIDTH
    for item in group.items:
        if type(item) is str:
            parts.append(item)
            column += len(item)
        elif type(item) is _Group:
            column = _lay_out(item, column, parts)
        elif is_flat:
            parts.append(item.text)
            column += len(item.text)
        else:
            parts.append("\n" + " " * item.indent)
            column = item.indent
    return column


def method_of(value):
    """The class's own `_repr_pretty_` of a value, or None."""
    if is_kind(value, type):
        return None
    for cls in mro_of(type(value)):
        method = type.__dict__["__dict__"].__get__(cls).get(NAME)
        if method is not None:
            return method if callable(method) else None
    return None


def text(value, limit):
    """The text of a value with `_repr_pretty_`, or None for the usual text."""
    if method_of(value) is None:
        return None
    printer = Printer(limit)
    try:
        with contextlib.suppress(_TooLongError):
            printer.pretty(value)
        return printer.result()[:limit]
    except Exception as error:
        kind = type_name(type(value))
        guard.note(f"{NAME} of a displayed {kind} failed: {guard.describe(error)}")
        return None
