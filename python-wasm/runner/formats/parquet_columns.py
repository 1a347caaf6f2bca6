"""Converts columns of a DataFrame to values of a Parquet file."""

import sys

from _belljar.formats import parquet_values, thrift
from _belljar.formats.thrift import boolean, byte, fields, i32

_modules = sys.modules
_KINDS = {
    "i4": parquet_values.INT32,
    "i8": parquet_values.INT64,
    "f4": parquet_values.FLOAT,
    "f8": parquet_values.DOUBLE,
}
_UNITS = {"ms": 1, "us": 2, "ns": 3}


class Prepared:
    """A column: a physical type, its logical type, and the values with the missing ones.

    `valid` is `None` if no value is missing. With `categories`, the values are codes of them.
    """

    def __init__(self, column):
        source = column.categories or column
        self.kind, values, self.meaning = _physical(source)
        self.categories = None if column.categories is None else values
        self.values = values if column.categories is None else column.values
        self.valid = column.valid
        self.width = values.dtype.itemsize if self.kind == parquet_values.FIXED else 0

    def part(self, start, count):
        """The part of the column in a row group."""
        values = self.values[start : start + count]
        valid = None if self.valid is None else self.valid[start : start + count]
        categories = self.categories
        if categories is None and self.kind == parquet_values.BYTE_ARRAY and count > 1:
            codes, found = _modules["pandas"].factorize(values)
            # A dictionary pays if values repeat.
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
        """The bytes of a page: validity, and the values."""
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


def _physical(column):
    """The physical type of a column, its converted values, and their logical type."""
    kind, values = column.kind, column.values
    if kind == "number":
        return _number(values)
    if kind == "boolean":
        return parquet_values.BOOLEAN, values, {}
    if kind == "moment":
        return _moment(values, column.detail is not None)
    if kind == "duration":
        return parquet_values.INT64, values.view("i8"), {}
    if kind == "text":
        return parquet_values.BYTE_ARRAY, values, {6: i32(0), 10: fields({1: fields({})})}
    if kind == "bytes":
        return parquet_values.BYTE_ARRAY, values, {}
    if kind == "null":
        return parquet_values.INT32, values, {10: fields({11: fields({})})}
    if kind == "date":
        return parquet_values.INT32, values, {6: i32(6), 10: fields({6: fields({})})}
    if kind == "time":
        details = {1: boolean(False), 2: fields({2: fields({})})}
        return parquet_values.INT64, values, {10: fields({7: fields(details)})}
    scale, digits = map(i32, column.detail)
    logical = fields({5: fields({1: scale, 2: digits})})
    return parquet_values.FIXED, values, {6: i32(5), 7: scale, 8: digits, 10: logical}


def _number(values):
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f" and size == 2:
        return parquet_values.FIXED, values, {10: fields({15: fields({})})}
    if kind == "f":
        return _KINDS[f"f{size}"], values, {}
    wide = "i8" if size == 8 else "i4"
    same = (
        values.view("i8") if size == 8 else values.astype("u4" if kind == "u" else "i4").view("i4")
    )
    if kind == "i" and size >= 4:
        return _KINDS[wide], same, {}
    power = (1, 2, 4, 8).index(size)
    details = {1: byte(size * 8), 2: boolean(kind == "i")}
    meaning = {6: i32((11 if kind == "u" else 15) + power), 10: fields({10: fields(details)})}
    return _KINDS[wide], same, meaning


def _moment(values, is_utc):
    unit = _modules["numpy"].datetime_data(values.dtype)[0]
    if unit not in _UNITS:
        unit, values = "ms", values.astype("M8[ms]")
    details = {1: boolean(is_utc), 2: fields({_UNITS[unit]: fields({})})}
    meaning = {10: fields({8: fields(details)})}
    if is_utc and unit != "ns":
        meaning = {6: i32(8 + _UNITS[unit]), **meaning}
    return parquet_values.INT64, values.view("i8"), meaning
