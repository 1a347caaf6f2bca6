"""Columns of a DataFrame as the values that a Parquet file has for them."""

import sys
from itertools import starmap

from _belljar import parquet_values, thrift
from _belljar.thrift import boolean, byte, fields, i32

_modules = sys.modules
_KINDS = {
    "i4": parquet_values.INT32,
    "i8": parquet_values.INT64,
    "f4": parquet_values.FLOAT,
    "f8": parquet_values.DOUBLE,
}
_UNITS = {"ms": 1, "us": 2, "ns": 3}
_STRING = {6: i32(0), 10: fields({1: fields({})})}
_MAX_DIGITS = 38


class Prepared:
    """A column: a physical type, what it means, and the values with what is missing.

    `valid` is None where nothing is missing. With `categories`, the values are codes of them.
    """

    def __init__(self, kind, values, valid=None, meaning=None, categories=None):
        self.kind = kind
        self.meaning = meaning or {}
        self.values = values
        self.valid = valid
        self.categories = categories
        self.width = values.dtype.itemsize if kind == parquet_values.FIXED else 0

    def part(self, start, count):
        """The part of it that belongs to a row group."""
        values = self.values[start : start + count]
        valid = None if self.valid is None else self.valid[start : start + count]
        categories = self.categories
        if categories is None and self.kind == parquet_values.BYTE_ARRAY and count > 1:
            codes, found = _modules["pandas"].factorize(values)
            # A dictionary is worth it where values come again.
            if len(found) <= count // 4:
                return _Part(self.kind, codes, codes >= 0, found)
        return _Part(self.kind, values, valid, categories)


class _Part:
    def __init__(self, kind, values, valid, categories):
        self._kind = kind
        self._values = values
        self._valid = valid
        self.dictionary = None if categories is None else _plain(kind, categories)
        self.dictionary_size = 0 if categories is None else len(categories)

    def page(self, start, count):
        """The bytes of a page: what is there, and the values."""
        values = self._values[start : start + count]
        valid = None if self._valid is None else self._valid[start : start + count]
        if valid is None or valid.all():
            levels = thrift.varint(count << 1) + b"\x01"
        else:
            values, levels = values[valid], parquet_values.put_bits(valid)
        if self.dictionary is None:
            body = _plain(self._kind, values)
        else:
            body = parquet_values.put_codes(values, self.dictionary_size)
        return b"".join((len(levels).to_bytes(4, "little"), levels, body))


def _plain(kind, values):
    if kind == parquet_values.BOOLEAN:
        return _modules["numpy"].packbits(values, bitorder="little").tobytes()
    if kind == parquet_values.BYTE_ARRAY:
        values = [v.encode() if isinstance(v, str) else v for v in values.tolist()]
        return parquet_values.put_texts(values)
    return values.tobytes()


def prepare(series):
    """A series as `Prepared`, and the note that pandas keeps about it."""
    pandas, dtype = _modules["pandas"], series.dtype
    note = {"pandas_type": "object", "numpy_type": str(dtype), "metadata": None}
    if isinstance(dtype, pandas.CategoricalDtype):
        categories, _ = prepare(pandas.Series(dtype.categories))
        if categories.valid is not None:
            raise ValueError("a category is missing")
        codes = series.cat.codes.to_numpy()
        details = {"num_categories": len(dtype.categories), "ordered": bool(dtype.ordered)}
        note |= {"pandas_type": "categorical", "numpy_type": str(codes.dtype), "metadata": details}
        valid, inner = codes >= 0, categories
        return Prepared(inner.kind, codes, valid, inner.meaning, inner.values), note
    if isinstance(dtype, pandas.DatetimeTZDtype):
        note |= {"pandas_type": "datetimetz", "metadata": {"timezone": str(dtype.tz)}}
        values = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        note["numpy_type"] = str(values.dtype)
        return _moments(values, is_utc=True), note
    if isinstance(dtype, pandas.StringDtype):
        note |= {"pandas_type": "unicode"}
        return _texts(series.to_numpy(object), series.isna().to_numpy(), _STRING), note
    numpy_dtype = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(numpy_dtype, _modules["numpy"].dtype):
        raise ValueError(f"it has the type {dtype}")
    if numpy_dtype.kind == "O":
        prepared, note["pandas_type"] = _prepare_objects(series.to_numpy(object))
        return prepared, note
    missing = series.isna().to_numpy()
    if numpy_dtype is dtype:
        values = series.to_numpy()
    else:
        values = series.to_numpy(numpy_dtype, na_value=False if numpy_dtype.kind == "b" else 0)
    prepared = _prepare_numbers(values, None if not missing.any() else ~missing)
    note["pandas_type"] = {"M": "datetime", "m": "timedelta"}.get(
        numpy_dtype.kind, str(numpy_dtype) if numpy_dtype.kind != "b" else "bool"
    )
    return prepared, note


def _prepare_numbers(values, valid):
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "b":
        return Prepared(parquet_values.BOOLEAN, values, valid)
    if kind == "M":
        return _moments(values)
    if kind == "m":
        return Prepared(parquet_values.INT64, values.view("i8"), valid)
    if kind == "f" and size == 2:
        return Prepared(parquet_values.FIXED, values, valid, {10: fields({15: fields({})})})
    if kind == "f" and size in (4, 8):
        return Prepared(_KINDS[f"f{size}"], values, valid)
    if kind not in "iu" or size > 8:
        raise ValueError(f"it has the type {values.dtype}")
    wide = "i8" if size == 8 else "i4"
    same = (
        values.view("i8") if size == 8 else values.astype("u4" if kind == "u" else "i4").view("i4")
    )
    if kind == "i" and size >= 4:
        return Prepared(_KINDS[wide], same, valid)
    power = (1, 2, 4, 8).index(size)
    details = {1: byte(size * 8), 2: boolean(kind == "i")}
    meaning = {6: i32((11 if kind == "u" else 15) + power), 10: fields({10: fields(details)})}
    return Prepared(_KINDS[wide], same, valid, meaning)


def _moments(values, is_utc=False):
    numpy = _modules["numpy"]
    unit = numpy.datetime_data(values.dtype)[0]
    if unit not in _UNITS:
        unit, values = "ms", values.astype("M8[ms]")
    missing = numpy.isnat(values)
    details = {1: boolean(is_utc), 2: fields({_UNITS[unit]: fields({})})}
    meaning = {10: fields({8: fields(details)})}
    if is_utc and unit != "ns":
        meaning = {6: i32(8 + _UNITS[unit]), **meaning}
    return Prepared(
        parquet_values.INT64, values.view("i8"), ~missing if missing.any() else None, meaning
    )


def _texts(values, missing, meaning=None):
    if not missing.any():
        return Prepared(parquet_values.BYTE_ARRAY, values, None, meaning)
    # They may be the frame's own.
    values = values.copy()
    values[missing] = None
    return Prepared(parquet_values.BYTE_ARRAY, values, ~missing, meaning)


def _prepare_objects(values):
    """Python objects, if all are of one kind that a Parquet file has."""
    numpy, pandas = _modules["numpy"], _modules["pandas"]
    values = values.copy()
    missing = pandas.isna(values)
    there = values[~missing]
    kind = pandas.api.types.infer_dtype(there, skipna=False)
    valid = ~missing if missing.any() else None
    if kind in ("string", "bytes"):
        name = "unicode" if kind == "string" else "bytes"
        return _texts(values, missing, _STRING if kind == "string" else None), name
    if kind == "empty":
        meaning = {10: fields({11: fields({})})}
        return Prepared(
            parquet_values.INT32, numpy.zeros(len(values), "<i4"), ~missing, meaning
        ), "empty"
    if kind in ("boolean", "integer", "floating"):
        dtype = {"boolean": bool, "integer": "i8", "floating": "f8"}[kind]
        full = numpy.zeros(len(values), dtype)
        full[~missing] = there.astype(dtype)
        return _prepare_numbers(full, valid), str(full.dtype)
    if kind == "date":
        days = numpy.zeros(len(values), "<i4")
        days[~missing] = there.astype("M8[D]").astype("i8")
        meaning = {6: i32(6), 10: fields({6: fields({})})}
        return Prepared(parquet_values.INT32, days, valid, meaning), "date"
    if kind == "time":
        full = numpy.zeros(len(values), "<i8")
        full[~missing] = [_since_midnight(value) for value in there]
        details = {1: boolean(False), 2: fields({2: fields({})})}
        return Prepared(
            parquet_values.INT64, full, valid, {10: fields({7: fields(details)})}
        ), "time"
    if kind in ("datetime64", "datetime"):
        return _moments(pandas.to_datetime(pandas.Series(values)).to_numpy()), "datetime"
    if kind == "decimal":
        return _decimals(values, there, missing), "decimal"
    raise ValueError(f"its values are Python objects of the kind {kind!r}")


def _since_midnight(value):
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _decimals(values, there, missing):
    """Decimal numbers as integers of one scale, in the bytes of which the first counts the most."""
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
    details = {1: i32(scale), 2: i32(digits)}
    meaning = {6: i32(5), 7: i32(scale), 8: i32(digits), 10: fields({5: fields(details)})}
    return Prepared(parquet_values.FIXED, full, ~missing if missing.any() else None, meaning)
