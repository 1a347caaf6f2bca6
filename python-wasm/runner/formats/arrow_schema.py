"""The columns of an Arrow schema: the meaning of their values, and their buffers."""

import json

_LITTLE = 0
_V4 = 3
_MAX_DEPTH = 64
_UNITS = ("s", "ms", "us", "ns")
_TYPES = range(1, 27)
(_NULL, _INT, _FLOAT, _BINARY, _UTF8, _BOOL, _DECIMAL, _DATE, _TIME, _TIMESTAMP, _INTERVAL, _LIST,
 _STRUCT, _UNION, _FIXED_BINARY, _FIXED_LIST, _MAP, _DURATION, _LARGE_BINARY, _LARGE_UTF8,
 _LARGE_LIST, _RUNS, _BINARY_VIEW, _UTF8_VIEW, _LIST_VIEW, _LARGE_LIST_VIEW) = _TYPES  # fmt: skip
# Number of buffers for the values of each type, besides the validity bits.
_BUFFERS = {
    _BINARY: 2, _UTF8: 2, _LARGE_BINARY: 2, _LARGE_UTF8: 2, _STRUCT: 0, _FIXED_LIST: 0,
    _LIST_VIEW: 2, _LARGE_LIST_VIEW: 2,
}  # fmt: skip
_NOT_HERE = {
    _INTERVAL: "an interval", _RUNS: "encoded in runs", _LIST_VIEW: "a list of views",
    _LARGE_LIST_VIEW: "a list of views",
}  # fmt: skip
_NESTED = {
    _LIST: "list", _LARGE_LIST: "large list", _FIXED_LIST: "fixed list", _MAP: "map",
    _STRUCT: "struct",
}  # fmt: skip
_PLAIN = {
    _NULL: ("null", "null"), _BOOL: ("plain", "bits"),
    _UTF8: ("text", "binary", "<i4"), _LARGE_UTF8: ("text", "binary", "<i8"),
    _BINARY: ("bytes", "binary", "<i4"), _LARGE_BINARY: ("bytes", "binary", "<i8"),
    _UTF8_VIEW: ("text", "views"), _BINARY_VIEW: ("bytes", "views"),
}  # fmt: skip
_MAX_SCALE = 1 << 10
_MAX_WIDTH = 1 << 30


class Meaning:
    """The type of a column's values: a kind, and their layout.

    "fixed" has a numpy type, "binary" offsets of one, "views", "bits" and "null" have no more; the
    layouts of the kind "nested" have the children of the field.
    `kind` is the pandas type, None if it is not supported; `detail` its unit, zone or scale.
    """

    __slots__ = ("detail", "dtype", "kind", "layout")

    def __init__(self, kind, layout, dtype=None, detail=None):
        self.kind = kind
        self.layout = layout
        self.dtype = dtype
        self.detail = detail


class Field:
    """A column, or a nested part of one."""

    __slots__ = ("children", "codes", "dictionary", "meaning", "name", "ordered", "type")

    def __init__(self, table, schema, depth):
        schema.count()
        if depth > _MAX_DEPTH:
            raise ValueError("the schema of the Arrow data is nested too deep")
        self.name = (table.text(0) or b"").decode()
        self.type = table.number(2, "<B")
        self.meaning = _meaning(self.type, table.table(3), self.name)
        self.children = [Field(child, schema, depth + 1) for child in table.tables(5)]
        extension = dict(pairs(table, 6)).get(b"ARROW:extension:name", b"")
        if extension.startswith(b"pandas."):
            self.meaning = Meaning(None, None, detail=f"of the type {extension.decode()!r}")
        self.dictionary, self.codes, self.ordered = None, None, False
        encoding = table.table(4)
        if encoding is not None:
            self.dictionary = encoding.number(0, "<q")
            index = encoding.table(1)
            self.codes = "<i4" if index is None else _integer(index, self.name)
            self.ordered = encoding.flag(2)

    def plain(self):
        """The same without its dictionary: the type of the dictionary's values."""
        field = object.__new__(Field)
        for name in Field.__slots__:
            setattr(field, name, getattr(self, name))
        field.dictionary = None
        return field

    def shape(self, batch):
        """The number of buffers of the field in a batch, and its children there."""
        if self.dictionary is not None:
            return 2, ()
        if self.type in (_NULL, _RUNS):
            return 0, self.children
        if self.type in (_BINARY_VIEW, _UTF8_VIEW):
            return 2 + batch.variadic(), ()
        if self.type == _UNION:
            is_dense = self.meaning.detail == "a dense union"
            return 1 + is_dense + batch.is_old, self.children
        return 1 + _BUFFERS.get(self.type, 1), self.children


class Schema:
    """The columns of Arrow data, with their metadata."""

    __slots__ = ("_left", "extra", "fields")

    def __init__(self, table, size):
        if table is None:
            raise ValueError("the Arrow data have no schema")
        if table.number(0, "<h") != _LITTLE:
            raise ValueError("the Arrow data are big-endian, which cannot be read here")
        # Each field of a valid schema takes more bytes than this; cyclic ones do not.
        self._left = size // 8
        self.fields = [Field(field, self, 0) for field in table.tables(1)]
        self.extra = dict(pairs(table, 2))

    def count(self):
        self._left -= 1
        if self._left < 0:
            raise ValueError("the schema of the Arrow data has more fields than its size allows")

    def pandas(self):
        """The pandas metadata about index and types; empty if not available."""
        try:
            found = json.loads(self.extra.get(b"pandas", b"{}"))
        except (ValueError, RecursionError):
            return {}
        lists = ("columns", "index_columns", "column_indexes")
        if type(found) is not dict or any(type(found.get(name, [])) is not list for name in lists):
            return {}
        return found


def pairs(table, slot):
    for pair in table.tables(slot):
        yield pair.text(0) or b"", pair.text(1) or b""


def check_version(version):
    if version < _V4:
        raise ValueError(
            f"the Arrow data have metadata of version {version + 1}, and only 4 and 5 can be read"
        )


def _integer(table, name):
    bits, sign = table.number(0), "i" if table.flag(1) else "u"
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"column {name!r} of the Arrow data has integers of {bits} bits")
    return f"<{sign}{bits // 8}"


def _pick(choices, number, name):
    if not 0 <= number < len(choices):
        raise ValueError(f"column {name!r} of the Arrow data has an unknown type")
    return choices[number]


def _meaning(kind, table, name):
    if table is None or kind not in _TYPES:
        raise ValueError(f"column {name!r} of the Arrow data has an unknown type")
    if kind in _PLAIN:
        return Meaning(*_PLAIN[kind])
    if kind == _INT:
        return Meaning("plain", "fixed", _integer(table, name))
    if kind == _FLOAT:
        return Meaning("plain", "fixed", _pick(("<f2", "<f4", "<f8"), table.number(0, "<h"), name))
    if kind in (_DATE, _TIME, _TIMESTAMP, _DURATION):
        return _of_time(kind, table, name)
    if kind == _DECIMAL:
        bits, scale = table.number(2, "<i", 128), table.number(1)
        if bits not in (32, 64, 128, 256) or abs(scale) > _MAX_SCALE:
            raise ValueError(f"column {name!r} of the Arrow data has decimals of another form")
        return Meaning("decimal", "fixed", f"V{bits // 8}", scale)
    if kind == _FIXED_BINARY:
        width = table.number(0)
        if not 0 < width <= _MAX_WIDTH:
            raise ValueError(f"column {name!r} of the Arrow data has values of {width} bytes")
        return Meaning("bytes", "fixed", f"V{width}")
    if kind == _UNION:
        return Meaning(None, None, None, "a dense union" if table.number(0, "<h") else "a union")
    if kind in _NESTED:
        length = table.number(0) if kind == _FIXED_LIST else None
        if length is not None and not 0 <= length <= _MAX_WIDTH:
            raise ValueError(f"column {name!r} of the Arrow data has lists of {length}")
        return Meaning("nested", _NESTED[kind], None, length)
    return Meaning(None, None, None, _NOT_HERE[kind])


def _of_time(kind, table, name):
    if kind == _DATE:
        is_days = table.number(0, "<h", 1) == 0
        return Meaning("date", "fixed", "<i4" if is_days else "<i8", "D" if is_days else "ms")
    unit = _pick(_UNITS, table.number(0, "<h", 0 if kind == _TIMESTAMP else 1), name)
    if kind == _TIMESTAMP:
        zone = table.text(1)
        return Meaning("moment", "fixed", f"<M8[{unit}]", zone.decode() if zone else None)
    if kind == _DURATION:
        return Meaning("plain", "fixed", f"<m8[{unit}]")
    bits = table.number(1, "<i", 32)
    if bits not in (32, 64):
        raise ValueError(f"column {name!r} of the Arrow data has times of {bits} bits")
    return Meaning("time", "fixed", f"<i{bits // 8}", unit)
