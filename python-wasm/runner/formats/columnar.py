"""Converts a DataFrame's columns to values of one kind each, for columnar files.

Includes pandas' metadata, as in files written by pyarrow.
"""

import sys
from itertools import starmap

_modules = sys.modules
_UNITS = ("s", "ms", "us", "ns")
_MAX_DIGITS = 38


class Column:
    """The values of a column, and their kind:

    "number" and "boolean", of numpy's types; "moment" and "duration", of numpy's types, moments
    with the name of their zone or None; "date" in days, "time" in microseconds; "text" and "bytes",
    Python's objects; "decimal", big-endian integers of 16 bytes, with their scale and number of
    digits; "null". `valid` is `None` if no value is missing. With `categories`, another column, the
    values are codes of them.
    """

    __slots__ = ("categories", "detail", "kind", "ordered", "valid", "values")

    def __init__(self, kind, values, valid=None, detail=None):
        self.kind = kind
        self.values = values
        self.valid = valid
        self.detail = detail
        self.categories = None
        self.ordered = False


def collect(frame, index, form):
    """Names and columns of a frame and of its index, and pandas' metadata.

    `form` names the file format for error messages.
    """
    pandas = _modules["pandas"]
    names = [str(name) for name in frame.columns]
    columns, notes = [], []

    def add(name, label, series):
        try:
            column, note = prepare(series)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"column {name!r} cannot be written to {form}: {error}") from None
        columns.append((name, column))
        notes.append({"name": None if label is None else str(label), "field_name": name, **note})

    for place, name in enumerate(names):
        add(name, frame.columns[place], frame.iloc[:, place])
    indexes = []
    if index is None and isinstance(frame.index, pandas.RangeIndex):
        kept = frame.index
        bounds = {"start": kept.start, "stop": kept.stop, "step": kept.step}
        indexes.append({"kind": "range", "name": _noted(kept.name), **bounds})
    elif index is None or index:
        for place in range(frame.index.nlevels):
            level = frame.index.get_level_values(place)
            is_free = level.name is not None and str(level.name) not in names
            name = str(level.name) if is_free else f"__index_level_{place}__"
            names.append(name)
            indexes.append(name)
            add(name, level.name, pandas.Series(level))
    if len(set(names)) != len(names):
        raise ValueError(f"Duplicate column names found: {names}")
    described = {"index_columns": indexes, "column_indexes": _levels(frame.columns)}
    described |= {"columns": notes, "pandas_version": pandas.__version__}
    described["creator"] = {"library": "belljar", "version": "0"}
    return columns, described


def _levels(columns):
    levels = []
    for place in range(columns.nlevels):
        level = columns.get_level_values(place)
        kind = {"i": "int64", "f": "float64", "M": "datetime"}.get(
            getattr(level.dtype, "kind", "O"), "unicode"
        )
        note = {"name": _noted(level.name), "field_name": _noted(level.name)}
        details = {"encoding": "UTF-8"} if kind == "unicode" else None
        note |= {"pandas_type": kind, "numpy_type": str(level.dtype), "metadata": details}
        levels.append(note)
    return levels


def _noted(name):
    return name if name is None else str(name)


def prepare(series):
    """A series as a `Column`, and its pandas metadata."""
    pandas, dtype = _modules["pandas"], series.dtype
    note = {"pandas_type": "object", "numpy_type": str(dtype), "metadata": None}
    if isinstance(dtype, pandas.CategoricalDtype):
        return _categories(series, note)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        note |= {"pandas_type": "datetimetz", "metadata": {"timezone": str(dtype.tz)}}
        values = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        note["numpy_type"] = str(values.dtype)
        return _moments(values, str(dtype.tz)), note
    if isinstance(dtype, pandas.StringDtype):
        note |= {"pandas_type": "unicode"}
        return _texts("text", series.to_numpy(object), series.isna().to_numpy()), note
    numpy_dtype = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(numpy_dtype, _modules["numpy"].dtype):
        raise ValueError(f"it has the type {dtype}")
    if numpy_dtype.kind == "O":
        column, note["pandas_type"] = _objects(series.to_numpy(object))
        return column, note
    missing = series.isna().to_numpy()
    if numpy_dtype is dtype:
        values = series.to_numpy()
    else:
        values = series.to_numpy(numpy_dtype, na_value=False if numpy_dtype.kind == "b" else 0)
    note["pandas_type"] = {"M": "datetime", "m": "timedelta"}.get(
        numpy_dtype.kind, str(numpy_dtype) if numpy_dtype.kind != "b" else "bool"
    )
    return _numbers(values, ~missing if missing.any() else None), note


def _categories(series, note):
    dtype = series.dtype
    column, _ = prepare(_modules["pandas"].Series(dtype.categories))
    if column.valid is not None:
        raise ValueError("a category is missing")
    codes = series.cat.codes.to_numpy()
    details = {"num_categories": len(dtype.categories), "ordered": bool(dtype.ordered)}
    note |= {"pandas_type": "categorical", "numpy_type": str(codes.dtype), "metadata": details}
    found = Column(column.kind, codes, codes >= 0, column.detail)
    found.categories, found.ordered = column, bool(dtype.ordered)
    return found, note


def _numbers(values, valid):
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "M":
        return _moments(values)
    if kind in "bm":
        return Column("boolean" if kind == "b" else "duration", values, valid)
    if kind not in "iuf" or size > 8:
        raise ValueError(f"it has the type {values.dtype}")
    return Column("number", values, valid)


def _moments(values, zone=None):
    numpy = _modules["numpy"]
    if numpy.datetime_data(values.dtype)[0] not in _UNITS:
        values = values.astype("M8[ms]")
    missing = numpy.isnat(values)
    return Column("moment", values, ~missing if missing.any() else None, zone)


def _texts(kind, values, missing):
    if not missing.any():
        return Column(kind, values)
    # They may share memory with the frame.
    values = values.copy()
    values[missing] = None
    return Column(kind, values, ~missing)


def _objects(values):
    """Python objects, if all are of one kind."""
    numpy, pandas = _modules["numpy"], _modules["pandas"]
    values = values.copy()
    missing = pandas.isna(values)
    there = values[~missing]
    kind = pandas.api.types.infer_dtype(there, skipna=False)
    valid = ~missing if missing.any() else None
    if kind == "string":
        return _texts("text", values, missing), "unicode"
    if kind == "bytes":
        return _texts("bytes", values, missing), "bytes"
    if kind == "empty":
        return Column("null", numpy.zeros(len(values), "<i4"), ~missing), "empty"
    if kind in ("boolean", "integer", "floating"):
        dtype = {"boolean": bool, "integer": "i8", "floating": "f8"}[kind]
        full = numpy.zeros(len(values), dtype)
        full[~missing] = there.astype(dtype)
        return _numbers(full, valid), str(full.dtype)
    if kind == "date":
        days = numpy.zeros(len(values), "<i4")
        days[~missing] = there.astype("M8[D]").astype("i8")
        return Column("date", days, valid), "date"
    if kind == "time":
        full = numpy.zeros(len(values), "<i8")
        full[~missing] = [_since_midnight(value) for value in there]
        return Column("time", full, valid), "time"
    if kind in ("datetime64", "datetime"):
        return _moments(pandas.to_datetime(pandas.Series(values)).to_numpy()), "datetime"
    if kind == "decimal":
        return _decimals(values, there, missing), "decimal"
    raise ValueError(f"its values are Python objects of the kind {kind!r}")


def _since_midnight(value):
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _decimals(values, there, missing):
    """Decimal numbers as big-endian integers of one scale."""
    parts = [value.as_tuple() for value in there]
    if any(type(part.exponent) is not int for part in parts):
        raise ValueError("a decimal number is not finite")
    scale = max(0, *(-part.exponent for part in parts), 0)
    digits = max(len(part.digits) + part.exponent + scale for part in parts)
    digits = max(digits, scale, 1)
    if digits > _MAX_DIGITS:
        raise ValueError(f"its decimal numbers need {digits} digits, and {_MAX_DIGITS} is the most")

    def number(sign, digits, exponent):
        size = int("".join(map(str, digits)) or "0") * 10 ** (exponent + scale)
        return (-size if sign else size).to_bytes(16, "big", signed=True)

    numbers = list(starmap(number, parts))
    full = _modules["numpy"].zeros(len(values), "V16")
    full[~missing] = _modules["numpy"].frombuffer(b"".join(numbers), "V16")
    return Column("decimal", full, ~missing if missing.any() else None, (scale, digits))
