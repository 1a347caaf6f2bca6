"""The columns in a Parquet file's metadata: their position, and the meaning of their values."""

import json

from _belljar.formats import thrift

_MAGIC = b"PAR1"
_UNITS = {1: "ms", 2: "us", 3: "ns"}
_INTEGERS = {11: "u1", 12: "u2", 13: "u4", 14: "u8", 15: "i1", 16: "i2", 17: "i4", 18: "i8"}


class Leaf:
    """A column: its physical type, and its logical type, a tuple that begins with a name.

    The logical type is `None` if the column is nested; `elements` are then all of its schema.
    """

    __slots__ = ("elements", "kind", "levels", "meaning", "name", "width")

    def __init__(self, element, is_nested=False):
        self.name = text(element, 4)
        self.kind = element.get(1)
        self.width = number(element, 2, 0)
        self.levels = 1 if element.get(3) == 1 else 0
        is_flat = not element.get(5) and self.kind in range(8)
        is_flat = is_flat and (is_nested or element.get(3) != 2)
        self.meaning = _meaning(element) if is_flat else None
        if is_flat and self.kind == 7 and not 0 < self.width < 1 << 20:
            raise ValueError(f"column {self.name!r} of the Parquet file has no width")


class Metadata:
    """The parsed footer of a Parquet file."""

    __slots__ = ("extra", "groups", "leaves", "rows", "size")

    def __init__(self, file):
        fields, self.size = _footer(file)
        self.rows = number(fields, 3)
        self.leaves = _leaves(structs(fields, 2))
        self.groups = structs(fields, 4)
        pairs = [(pair.get(1), pair.get(2)) for pair in structs(fields, 5)]
        self.extra = {key: value for key, value in pairs if type(value) is bytes}
        if sum(number(group, 3) for group in self.groups) != self.rows:
            raise ValueError("the Parquet file contradicts itself about its number of rows")

    def pandas(self):
        """The pandas metadata about index and types; empty if not available."""
        return self._json(b"pandas", {"columns", "index_columns", "column_indexes"})

    def attributes(self):
        return self._json(b"PANDAS_ATTRS", ())

    def _json(self, key, lists):
        try:
            found = json.loads(self.extra.get(key, b"{}"))
        except (ValueError, RecursionError):
            return {}
        if type(found) is not dict or any(type(found.get(name, [])) is not list for name in lists):
            return {}
        return found


def _footer(file):
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    if len(tail) == 8 and tail[4:] == b"PARE":
        raise ValueError("the Parquet file is encrypted, and cannot be read here")
    length = int.from_bytes(tail[:4], "little")
    if len(tail) != 8 or tail[4:] != _MAGIC or length > size - 12:
        raise ValueError("not a Parquet file: it does not end like one")
    file.seek(size - 8 - length)
    return thrift.Reader(file.read(length)).struct(), size


def _leaves(elements):
    """The top-level columns; children of nested ones are skipped."""
    leaves, at = [], 1
    while at < len(elements):
        leaves.append(Leaf(elements[at]))
        below, first = 1, at
        while below and at < len(elements):
            below += number(elements[at], 5, 0) - 1
            at += 1
        leaves[-1].elements = elements[first:at]
    return leaves


def _meaning(element):
    kind, converted = element[1], element.get(6)
    converted = converted if type(converted) is int else None
    logical = element.get(10)
    which, detail = next(iter(logical.items()), (0, None)) if type(logical) is dict else (0, None)
    detail = detail if type(detail) is dict else {}
    if kind == 3:
        return ("int96",)
    if kind in (6, 7):
        if which == 5 or converted == 5:
            return "decimal", number(detail, 1, number(element, 7, 0))
        if which in (1, 4, 12) or converted in (0, 4, 19):
            return ("string",)
        if which == 15 and element.get(2) == 2:
            return ("half",)
        return ("null",) if which == 11 else ("bytes",)
    if kind not in (1, 2):
        return ("null",) if which == 11 else ("plain",)
    if which == 11:
        return ("null",)
    if which == 5 or converted == 5:
        return "decimal", number(detail, 1, number(element, 7, 0))
    if which == 6 or converted == 6:
        return ("date",)
    if which in (7, 8):
        unit = detail.get(2)
        unit = _UNITS.get(next(iter(unit), 2), "us") if type(unit) is dict else "us"
        return "time" if which == 7 else "timestamp", unit, detail.get(1) is True
    if converted in (7, 8):
        return "time", _UNITS[converted - 6], False
    if converted in (9, 10):
        return "timestamp", _UNITS[converted - 8], False
    if which == 10:
        bits = number(detail, 1, 0)
        sign = "i" if detail.get(2, True) else "u"
        return ("integer", f"{sign}{bits // 8}") if bits in (8, 16, 32, 64) else ("plain",)
    return ("integer", _INTEGERS[converted]) if converted in _INTEGERS else ("plain",)


def structs(fields, place):
    found = fields.get(place, [])
    if type(found) is not list or any(type(item) is not dict for item in found):
        raise ValueError("not a Parquet file: its metadata are of another form")
    return found


def number(fields, place, default=None):
    value = fields.get(place, default)
    if type(value) is not int or value < 0:
        raise ValueError("not a Parquet file: its metadata lack a number")
    return value


def text(fields, place):
    value = fields.get(place)
    if type(value) is not bytes:
        raise ValueError("not a Parquet file: its metadata lack a name")
    return value.decode()
