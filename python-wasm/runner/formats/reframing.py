"""Builds a DataFrame from columns of a file, with the index and types in pandas' metadata."""

import ast
import sys
from decimal import Decimal

_modules = sys.modules
_MASKED = frozenset(
    "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64 boolean".split()
)


def described(notes):
    """The metadata of columns, by their names in the file."""
    return {
        note.get("field_name") or note.get("name"): note
        for note in notes.get("columns", ())
        if type(note) is dict
    }


def frame(values, notes, rows):
    """The DataFrame of columns by name; the index is taken out of them."""
    index = _index(values, notes, rows)
    made = _modules["pandas"].DataFrame(values, index=index, copy=False)
    made.columns = _labels(made.columns, notes)
    return made


def objects(values):
    """A list as an array of Python objects."""
    array = _modules["numpy"].empty(len(values), "O")
    array[:] = values
    return array


def decimals(numbers, scale):
    """Integers as decimal numbers with this many digits after the point."""
    return objects([Decimal(f"{number}E{-scale}") for number in numbers])


def times(values, unit):
    """Integers that count units since midnight as times."""
    moments = values.astype(f"M8[{unit}]").astype("M8[us]").tolist()
    return objects([moment.time() for moment in moments])


def spread(values, valid, missing=None):
    """The values at their positions, with placeholders for missing ones."""
    numpy = _modules["numpy"]
    if valid is None:
        return values
    if missing is None and values.dtype.kind in "mM":
        missing = numpy.array("NaT", values.dtype)
    full = numpy.full(len(valid), missing, values.dtype)
    full[valid] = values
    return full


def typed(values, valid, dtype, nullable, is_text=False):
    """A column as in pandas: of the type `dtype` if that supports missing values.

    `values` are the valid ones; `valid` is the mask, None if all are valid.
    """
    pandas, kind = _modules["pandas"], values.dtype.kind
    if is_text:
        is_nullable = nullable or dtype == "string"
        return pandas.array(spread(values, valid), dtype="string" if is_nullable else "str")
    if kind in "iufb" and (nullable or dtype in _MASKED):
        return _masked(values, valid, None if nullable else dtype)
    if valid is None:
        return values
    if kind == "f":
        return spread(values, valid, float("nan"))
    if kind in "iu":
        return spread(values.astype("f8"), valid, float("nan"))
    if kind == "b":
        return spread(values.astype(object), valid)
    return spread(values, valid)


def _masked(values, valid, dtype):
    numpy, arrays = _modules["numpy"], _modules["pandas"].arrays
    mask = numpy.zeros(len(values), bool) if valid is None else ~valid
    cls = {"f": arrays.FloatingArray, "b": arrays.BooleanArray}
    if values.dtype == "f2":
        values = values.astype("f4")
    array = cls.get(values.dtype.kind, arrays.IntegerArray)(spread(values, valid, 0), mask)
    return array if dtype is None else array.astype(dtype)


def zoned(values, zone, form):
    """UTC timestamps in a time zone; `form` names the file format for error messages."""
    index = _modules["pandas"].DatetimeIndex(values, tz="UTC")
    try:
        return index.tz_convert(zone).array
    except (KeyError, OSError, ValueError):
        raise ValueError(f"the {form} file names the unknown time zone {zone!r}") from None


def categorical(codes, categories, ordered, is_text):
    """Categories with their codes, -1 for missing values."""
    pandas = _modules["pandas"]
    if is_text:
        categories = pandas.Index(categories, dtype="str")
    elif categories.dtype == "f2":
        # pandas has no index of them.
        categories = categories.astype("f4")
    return pandas.Categorical.from_codes(codes, categories, ordered=ordered)


def _index(values, notes, rows):
    """The index from the metadata, taken out of the values; else a range."""
    pandas, notes_of = _modules["pandas"], described(notes)
    levels, names = [], []
    for note in notes.get("index_columns", ()):
        if type(note) is dict and note.get("kind") == "range":
            bounds = [note.get(name) for name in ("start", "stop", "step")]
            if all(type(bound) is int for bound in bounds) and bounds[2]:
                index = pandas.RangeIndex(*bounds, name=_hashable(note.get("name")))
                if len(index) == rows:
                    return index
        elif type(note) is str and note in values:
            levels.append(values.pop(note))
            names.append(_hashable(notes_of.get(note, {}).get("name", note)))
    if not levels:
        return pandas.RangeIndex(rows)
    if len(levels) == 1:
        return pandas.Index(levels[0], name=names[0])
    return pandas.MultiIndex.from_arrays(levels, names=names)


def _hashable(name):
    return name if name is None or type(name) in (str, int, float, bool) else str(name)


def _labels(columns, notes):
    """The names of the columns, converted back from text."""
    pandas = _modules["pandas"]
    levels = [level for level in notes.get("column_indexes", ()) if type(level) is dict]
    names = [_hashable(level.get("name")) for level in levels]
    try:
        if len(levels) > 1:
            return pandas.MultiIndex.from_tuples(map(ast.literal_eval, columns), names=names)
        if levels and levels[0].get("pandas_type") in ("int64", "datetime", "float64"):
            kind = str(levels[0].get("numpy_type"))
            columns = columns.astype(kind)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return columns
    return columns.rename(names[0]) if len(levels) == 1 else columns
