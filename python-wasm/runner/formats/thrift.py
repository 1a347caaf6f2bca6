"""Thrift's compact protocol, as far as Parquet uses it: structs as dicts by field number."""

import struct

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAX_DEPTH = 24
_double = struct.Struct("<d")


class Reader:
    """Reads structs from untrusted bytes, starting at `at`."""

    __slots__ = ("at", "data")

    def __init__(self, data, at=0):
        self.data = data
        self.at = at

    def struct(self, depth=0):
        """A dict of field numbers and values; enums are integers, strings are bytes."""
        if depth > _MAX_DEPTH:
            raise ValueError("not a Parquet file: its metadata is nested too deep")
        fields, number = {}, 0
        while True:
            head = self._byte()
            if head == 0:
                return fields
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            fields[number] = kind == _TRUE if kind <= _FALSE else self._value(kind, depth)

    def varint(self):
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("not a Parquet file: a number in its metadata has no end")

    def _byte(self):
        try:
            byte = self.data[self.at]
        except IndexError:
            raise ValueError("not a Parquet file: its metadata is cut off") from None
        self.at += 1
        return byte

    def _zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def _take(self, size):
        part = bytes(self.data[self.at : self.at + size])
        if len(part) != size:
            raise ValueError("not a Parquet file: its metadata is cut off")
        self.at += size
        return part

    def _value(self, kind, depth):
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _DOUBLE:
            return _double.unpack(self._take(8))[0]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        raise ValueError(f"not a Parquet file: its metadata has a value of the unknown kind {kind}")

    def _list(self, depth):
        head = self._byte()
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self.varint()
        # Each element takes at least one byte.
        if size > len(self.data) - self.at or depth > _MAX_DEPTH:
            raise ValueError("not a Parquet file: a list in its metadata is too long")
        return [self._value(kind, depth) for _ in range(size)]


def i32(value):
    return _I32, value


def i64(value):
    return _I64, value


def byte(value):
    return _BYTE, value


def boolean(value):
    return (_TRUE if value else _FALSE), None


def binary(value):
    return _BINARY, value.encode() if isinstance(value, str) else value


def fields(values):
    """A struct: a dict of field numbers and results of these functions; None is left out."""
    return _STRUCT, values


def many(values):
    """A list of values of one kind."""
    return _LIST, values


def encode(values):
    """The bytes of a struct, given as to `fields`."""
    out = bytearray()
    _put_struct(out, values)
    return bytes(out)


def varint(value):
    out = bytearray()
    _put_varint(out, value)
    return bytes(out)


def _put_varint(out, value):
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_struct(out, values):
    before = 0
    for number, value in values.items():
        if value is None:
            continue
        out.append((number - before) << 4 | value[0])
        before = number
        _put(out, *value)
    out.append(0)


def _put(out, kind, value):
    if kind in (_I32, _I64):
        _put_varint(out, (value << 1) ^ (value >> 63))
    elif kind == _BYTE:
        out.append(value)
    elif kind == _BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == _STRUCT:
        _put_struct(out, value)
    elif kind == _LIST:
        inner = value[0][0] if value else _I32
        if len(value) < 15:
            out.append(len(value) << 4 | inner)
        else:
            out.append(15 << 4 | inner)
            _put_varint(out, len(value))
        for item in value:
            _put(out, *item)
