"""Converts columns of a DataFrame to Arrow buffers."""

import sys

from _belljar.formats import codecs, reframing
from _belljar.formats.flatbuffers import Vector

_modules = sys.modules
_UNITS = ("s", "ms", "us", "ns")
_MAX_OFFSET = (1 << 31) - 1
_ALIGNMENT = 64


class Prepared:
    """A column: its field of the schema, and buffers of its rows."""

    def __init__(self, name, column, number):
        self._column = column
        kind, description = _type(column.categories or column)
        encoding = None
        if column.categories is not None:
            encoding = {0: ("<q", number), 1: _integer(column.values.dtype)}
            encoding[2] = ("<?", column.ordered)
        self.field = {
            0: name.encode(), 1: ("<?", True), 2: ("<B", kind), 3: description, 4: encoding,
            5: Vector([]),
        }  # fmt: skip

    def put(self, body, start, count):
        """Add the buffers of some rows."""
        column = self._column
        valid = None if column.valid is None else column.valid[start : start + count]
        values = column.values[start : start + count]
        _put(body, column if column.categories is None else None, values, valid)

    def dictionary(self):
        """The body of the batch with the categories; None without categories."""
        categories = self._column.categories
        if categories is None:
            return None
        body = Body(len(categories.values))
        _put(body, categories, categories.values, None)
        return body


class Body:
    """The buffers of a batch in order, with their positions."""

    def __init__(self, rows):
        self.rows = rows
        self.nodes = []
        self.buffers = []
        self.parts = []
        self.size = 0

    def add(self, data):
        data = memoryview(data).cast("B")
        self.buffers.append((self.size, len(data)))
        gap = -len(data) % _ALIGNMENT
        self.parts += (data, bytes(gap))
        self.size += len(data) + gap

    def packed(self, codec):
        """The same with compressed buffers, each behind its length."""
        found = Body(self.rows)
        found.nodes = self.nodes
        for data in self.parts[::2]:
            found.add(_packed(codec, data))
        return found


def _packed(codec, data):
    if not len(data):
        return data
    # Marks a buffer that is not compressed.
    length, packed = -1, data
    if len(data) <= codecs.LIMIT:
        smaller = codecs.compress(codec, data)
        if len(smaller) < len(data):
            length, packed = len(data), smaller
    return b"".join((length.to_bytes(8, "little", signed=True), packed))


def _put(body, column, values, valid):
    """Add the buffers of values; `column` describes them, None for codes."""
    numpy = _modules["numpy"]
    kind = "number" if column is None else column.kind
    missing = 0 if valid is None else len(valid) - int(valid.sum())
    body.nodes.append((len(values), missing))
    if kind == "null":
        return
    body.add(numpy.packbits(valid, bitorder="little") if missing else b"")
    if kind == "boolean":
        body.add(numpy.packbits(values, bitorder="little"))
    elif kind in ("text", "bytes"):
        for data in _binaries(values, valid if missing else None, kind == "text"):
            body.add(data)
    elif kind == "decimal":
        lanes = numpy.ascontiguousarray(values).view("u1").reshape(-1, 16)
        body.add(numpy.ascontiguousarray(lanes[:, ::-1]))
    else:
        values = values.view("i8") if kind in ("moment", "duration") else values
        body.add(numpy.ascontiguousarray(values))


def _binaries(values, valid, is_text):
    """The offsets of values, and the concatenated values."""
    numpy = _modules["numpy"]
    there = (values if valid is None else values[valid]).tolist()
    if is_text:
        data = "".join(there)
        is_plain = data.isascii()
        there = there if is_plain else [value.encode() for value in there]
        data = data.encode() if is_plain else b"".join(there)
    else:
        data = b"".join(there)
    if len(data) > _MAX_OFFSET:
        raise ValueError("more than 2 GiB of text in one batch: give a smaller chunksize")
    offsets = numpy.zeros(len(values) + 1, "<i4")
    lengths = numpy.fromiter(map(len, there), "<i4", len(there))
    numpy.cumsum(reframing.spread(lengths, valid, 0), out=offsets[1:])
    return offsets, data


def _integer(dtype):
    return {0: ("<i", dtype.itemsize * 8), 1: ("<?", dtype.kind == "i")}


def _unit(values):
    return _UNITS.index(_modules["numpy"].datetime_data(values.dtype)[0])


def _type(column):
    """The number of Arrow's type, and its description."""
    kind, values = column.kind, column.values
    if kind == "number" and values.dtype.kind == "f":
        return 3, {0: ("<h", (2, 4, 8).index(values.dtype.itemsize))}
    if kind == "number":
        return 2, _integer(values.dtype)
    if kind == "moment":
        zone = column.detail
        return 10, {0: ("<h", _unit(values)), 1: None if zone is None else zone.encode()}
    if kind == "duration":
        return 18, {0: ("<h", _unit(values))}
    if kind == "date":
        return 8, {0: ("<h", 0)}
    if kind == "time":
        return 9, {0: ("<h", 2), 1: ("<i", 64)}
    if kind == "decimal":
        scale, digits = column.detail
        return 7, {0: ("<i", digits), 1: ("<i", scale), 2: ("<i", 128)}
    return {"null": 1, "bytes": 4, "text": 5, "boolean": 6}[kind], {}
