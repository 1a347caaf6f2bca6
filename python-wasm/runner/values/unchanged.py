"""Detects whether a pandas object still looks the same: its text and its first rows.

Printing a table takes pandas milliseconds, but the result depends on little: the rows at both ends,
the labels, the types, and the options. These are read each time from pandas' own storage, by value,
so that names and in-place changes do not matter. If anything else could affect the text, as in a
subclass or an object in a cell, there is no answer, and the object is printed.
"""

import os
import sys
from operator import is_ as _is

from _belljar.protocol import interrupt

_ROWS = 100  # rows of one object
_LABELS = 100  # labels of columns, and categories
_BYTES = 1 << 16  # of numbers, in one object
_CELLS = 4_000  # other values in one object
_PLAIN = frozenset((bool, float, int, str, type(None)))
_OWN = frozenset(("_attrs", "_flags", "_item_cache", "_mgr", "_name"))
_TERMINAL = ("COLUMNS", "LINES")
_modules = sys.modules
_fields = vars


class _OtherError(Exception):
    """Something else may affect the text."""


def looks(value, settings):
    """A fingerprint of `value` with the result of `settings`: equal ones are printed the same.

    None if that cannot be determined cheaply.
    """
    try:
        return (settings, *_parts(value, *settings[:2]))
    except interrupt.Interrupted:
        raise
    except BaseException:
        return None


def settings(order):
    """The state that affects all objects: the host's `order`, pandas' options, and other process
    state that pandas reads; empty if one of these is a function.
    """
    try:
        config = _modules["pandas._config.config"]._global_config
        found = _OPTIONS.read(config["display"], config["mode"])
        whole = config["display"]["max_rows"] or 0
        if not 0 < whole <= _ROWS or config["display"]["large_repr"] != "truncate":
            return ()
        # One more than the half, which is rounded.
        edge = min(config["display"]["min_rows"] or whole, whole) // 2 + 1
        edge = max(edge, order["table_rows"] or 0)
        if edge > _ROWS:
            return ()
        main = hasattr(_modules["__main__"], "__file__")
        names = _modules["builtins"].__dict__
        shell = type(names.get("get_ipython")), "__IPYTHON__" in names
        return (
            whole,
            edge,
            *dict.items(order),
            *found,
            main,
            shell,
            *map(os.environ.get, _TERMINAL),
        )
    except interrupt.Interrupted:
        raise
    except BaseException:
        return ()


class _Options:
    """Options of pandas: nested dictionaries, and immutable values."""

    __slots__ = ("dicts", "found", "held")

    def __init__(self):
        self.dicts = ()
        self.held = []  # the names and values in each of them
        self.found = ()

    def read(self, *roots):
        """All names with their values; collected again only if one has changed."""
        dicts = self.dicts
        is_known = len(dicts) >= len(roots) and all(map(_is, dicts, roots))
        if not is_known or _contents(dicts) != self.held:
            dicts = list(roots)
            self.found = tuple(_flat(dicts))
            self.dicts, self.held = dicts, _contents(dicts)
        return self.found


_OPTIONS = _Options()


def _contents(dicts):
    held = []
    for options in dicts:
        held += dict.keys(options)
        held += dict.values(options)
    return held


def _flat(dicts):
    """The names and values in the dictionaries; nested dictionaries are added to the list."""
    for options in dicts:
        for name, value in dict.items(options):
            if type(value) is dict or isinstance(value, dict):
                dicts.append(value)
            else:
                yield name, _plain(value)


def _parts(value, whole, edge):
    pandas = _modules["pandas"]
    kind = type(value)
    if kind is not pandas.DataFrame and kind is not pandas.Series:
        raise _OtherError
    # An instance attribute can replace a method.
    if not _OWN.issuperset(_fields(value)):
        raise _OtherError
    budget = _Budget(whole, edge)
    manager = value._mgr
    yield kind
    *columns, index = manager.axes
    for labels in columns:
        yield _all_labels(labels)
    yield _labels(budget, index)
    if kind is pandas.Series:
        yield _plain(value.name)
        # A series prints it below its values.
        if getattr(index, "freq", None) is not None:
            raise _OtherError
    for block in manager.blocks:
        yield block.mgr_locs.as_array.tobytes(), _held(budget, block.values)


def _all_labels(index):
    if len(index) > _LABELS:
        raise _OtherError
    return _labels(_Budget(_LABELS, 0), index)


def _labels(budget, index):
    kind, pandas = type(index), _modules["pandas"]
    if kind is pandas.RangeIndex:
        return kind, index.start, index.stop, index.step, _plain(index.name)
    if kind in (pandas.Index, pandas.DatetimeIndex, pandas.TimedeltaIndex):
        return kind, _plain(index.name), _held(budget, index._values)
    raise _OtherError


def _held(budget, values):
    """The values at both ends of an array, and its type."""
    kind = type(values)
    if kind is _modules["numpy"].ndarray:
        return values.shape, values.dtype.str, *budget.edges(values)
    if kind is _modules["pandas"].Categorical:
        labels = _all_labels(values.categories)
        return kind, bool(values.ordered), labels, _held(budget, values.codes)
    arrays = _modules["pandas"].arrays
    if kind in (arrays.DatetimeArray, arrays.StringArray, arrays.TimedeltaArray):
        return kind, repr(values.dtype), _held(budget, values._ndarray)
    raise _OtherError


def _plain(value):
    if type(value) not in _PLAIN:
        raise _OtherError
    return type(value), value


class _Budget:
    """The remaining limit for one object."""

    __slots__ = ("bytes", "cells", "edge", "whole")

    def __init__(self, whole, edge):
        self.whole, self.edge = whole, edge
        self.bytes = _BYTES
        self.cells = _CELLS

    def edges(self, array):
        if array.shape[-1] <= max(self.whole, 2 * self.edge):
            return (self._copy(array),)
        return self._copy(array[..., : self.edge]), self._copy(array[..., -self.edge :])

    def _copy(self, array):
        if array.dtype.kind in "biufcmM":
            self.bytes -= array.nbytes
            if self.bytes < 0:
                raise _OtherError
            return array.tobytes()
        if array.dtype.kind != "O":
            raise _OtherError
        self.cells -= array.size
        if self.cells < 0:
            raise _OtherError
        cells = array.ravel().tolist()
        kinds = tuple(map(type, cells))
        if not _PLAIN.issuperset(kinds):
            raise _OtherError
        return kinds, tuple(cells)
