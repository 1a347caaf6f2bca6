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
_CELL = 16  # bytes that any other value counts
_PLAIN = frozenset((bool, float, int, str, type(None)))
_TEXT = {str}
_OWN = frozenset(("_attrs", "_flags", "_item_cache", "_mgr", "_name"))
_NO_NAME = object()
_TERMINAL = ("COLUMNS", "LINES")
_modules = sys.modules
_fields = vars


class _OtherError(Exception):
    """Something else may affect the text."""


def looks(value, settings, known=None):
    """A fingerprint of `value` with the result of `settings`, or `known` if it is the same.

    Objects with the same one are printed the same. None if that cannot be determined cheaply.
    """
    try:
        if known is not None and known.is_certain(value, settings):
            return known
        look = _Look(settings)
        look.read(value)
        if known is not None and look.found == known.found:
            known.found, known.plan = look.found, look.plan
            return known
        return look
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
        return _SHARED.begin(
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
                yield name, *_plain(value)


def _plain(value):
    kind = type(value)
    if kind not in _PLAIN:
        raise _OtherError
    # The two zeros are equal, but do not look the same.
    return kind, repr(value) if kind is float else value


class _Look:
    """What an object looks like: a flat list, in which every part determines what the next one is.

    Comparing that takes longest in a run that changes nothing, so there is also a plan for most
    objects, to find out that all it was read from is as it was.
    """

    __slots__ = ("arrays", "axes", "found", "left", "plan", "whole")

    def __init__(self, settings):
        self.found = [settings]
        self.left = _BYTES
        self.axes, self.arrays = [], []
        self.plan = None
        self.whole = False  # whether arrays are read as a whole, instead of at both ends

    def is_certain(self, value, settings):
        """Whether `value` looks like this; False if that takes more than comparing bytes."""
        if self.plan is None or self.found[0] is not settings:
            return False
        kind, name, axes, places, arrays = self.plan
        if type(value) is not kind or not _OWN.issuperset(_fields(value)):
            return False
        manager = value._mgr
        if name is not _NO_NAME and (value.name is not name or _has_freq(manager.axes[-1])):
            return False
        found = _arrays_of(manager.axes, axes)
        if found is None:
            return False
        blocks = manager.blocks
        placed = [block.mgr_locs for block in blocks]
        if len(placed) != len(places) or not all(map(_is, placed, places)):
            return False
        found += [block.values for block in blocks]
        return all(map(_is_held, found, arrays))

    def read(self, value):
        kind = type(value)
        if kind is not _SHARED.frame and kind is not _SHARED.series:
            raise _OtherError
        # An instance attribute can replace a method.
        if not _OWN.issuperset(_fields(value)):
            raise _OtherError
        manager = value._mgr
        *columns, index = manager.axes
        for labels in columns:
            self.labels(labels)
        self.index(index)
        name = _NO_NAME
        if kind is _SHARED.series:
            name = value.name
            self.found += _plain(name)
            if _has_freq(index):
                raise _OtherError
        blocks = manager.blocks
        self.found += kind, len(columns), len(blocks)
        for block in blocks:
            self.found.append(block.mgr_locs.as_array.tobytes())
            self.held(block.values)
        if self.axes is not None:
            places = [block.mgr_locs for block in blocks]
            self.plan = kind, name, self.axes, places, self.arrays

    def labels(self, index):
        """All labels of an index, which do not count."""
        if len(index) > _LABELS:
            raise _OtherError
        left, self.left, self.whole = self.left, _BYTES, True
        self.index(index)
        self.left, self.whole = left, False

    def index(self, index):
        kind, name, span = type(index), index.name, None
        self.found.append(kind)
        self.found += _plain(name)
        if kind is _SHARED.range:
            span = index.start, index.stop, index.step
            self.found += span
        elif kind is _SHARED.index or kind in _SHARED.timed:
            self.held(index._values)
        else:
            raise _OtherError
        self.axes.append((kind, name, span))

    def held(self, values):
        """The values of an array that are printed, and its type."""
        kind = type(values)
        if kind is _SHARED.array:
            self.ends(values, kind, None)
        elif kind is _SHARED.categorical:
            self.found += kind, bool(values.ordered)
            self.labels(values.categories)
            self.held(values.codes)
            self.axes = None
        elif kind in _SHARED.extensions:
            self.found += kind, repr(values.dtype)
            self.ends(values._ndarray, kind, values.dtype)
        else:
            raise _OtherError

    def ends(self, array, kind, label):
        shape, dtype = array.shape, array.dtype
        self.found += shape, dtype
        is_number = dtype.kind in "biufcmM"
        if not is_number and dtype.kind != "O":
            raise _OtherError
        whole = self.whole or shape[-1] <= _SHARED.most
        parts = [array] if whole else [array[ends] for ends in _SHARED.ends]
        for part in parts:
            self.left -= part.nbytes if is_number else part.size * _CELL
        if self.left < 0:
            raise _OtherError
        data = [part.tobytes() for part in parts]
        cells = None
        if is_number:
            self.found += data
        else:
            # Their data are addresses, which are unique as long as the cells are held.
            cells = [part.ravel().tolist() for part in parts]
            for part in cells:
                self.cells(part)
        self.arrays.append((kind, label, dtype, shape, data, cells))

    def cells(self, cells):
        kinds = set(map(type, cells))
        if kinds != _TEXT:
            if not _PLAIN.issuperset(kinds):
                raise _OtherError
            # Equal values of other types do not look the same, nor do the two zeros.
            self.found.append(list(map(type, cells)))
            if float in kinds and 0.0 in cells:
                cells = list(map(repr, cells))
        self.found.append(cells)


def _has_freq(index):
    """Whether a series prints the frequency of its index, which can be set in place."""
    return type(index) in _SHARED.timed and index.freq is not None


def _arrays_of(axes, known):
    """The arrays of labels; None if the axes are not the known ones."""
    arrays = []
    # Names are compared by identity: equal ones of other types do not look the same.
    for index, (kind, name, span) in zip(axes, known, strict=True):
        if type(index) is not kind or index.name is not name:
            return None
        if span is None:
            arrays.append(index._values)
        elif (index.start, index.stop, index.step) != span:
            return None
    return arrays


def _is_held(values, known):
    """Whether an array has the known type, shape and data."""
    kind, label, dtype, shape, data, _ = known
    if type(values) is not kind:
        return False
    if label is not None:
        if values.dtype is not label:
            return False
        values = values._ndarray
    if values.dtype != dtype or values.shape != shape:
        return False
    if len(data) == 1:
        return values.tobytes() == data[0]
    first, last = _SHARED.ends
    return values[first].tobytes() == data[0] and values[last].tobytes() == data[1]


class _Shared:
    """What the objects of a harvest share: pandas' types, and which rows are at both ends."""

    __slots__ = (
        "array",
        "categorical",
        "ends",
        "extensions",
        "frame",
        "index",
        "most",
        "range",
        "series",
        "settings",
        "timed",
    )

    def __init__(self):
        self.settings = ()

    def begin(self, whole, edge, *others):
        """The settings; the same object as before if they are equal, which compares fast."""
        pandas = _modules["pandas"]
        arrays = pandas.arrays
        self.array, self.categorical = _modules["numpy"].ndarray, pandas.Categorical
        self.extensions = arrays.DatetimeArray, arrays.StringArray, arrays.TimedeltaArray
        self.frame, self.series = pandas.DataFrame, pandas.Series
        self.index, self.range = pandas.Index, pandas.RangeIndex
        self.timed = pandas.DatetimeIndex, pandas.TimedeltaIndex
        self.most = max(whole, 2 * edge)
        self.ends = (..., slice(None, edge)), (..., slice(-edge, None))
        settings = whole, edge, *others
        if settings != self.settings:
            self.settings = settings
        return self.settings


_SHARED = _Shared()
