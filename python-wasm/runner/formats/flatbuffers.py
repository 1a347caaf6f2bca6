"""FlatBuffers, as far as Arrow's metadata needs them: reads tables by slots, and serializes them.

Input is untrusted: every position is checked before it is read, and invalid ones are a
`ValueError`.
"""

import struct

_BROKEN = "the metadata of the Arrow data are broken"
_unpack = {form: struct.Struct(form).unpack_from for form in ("<B", "<h", "<H", "<i", "<I", "<q")}


def _read(data, form, at):
    if at < 0:
        raise ValueError(f"{_BROKEN}: they point before their beginning")
    try:
        return _unpack[form](data, at)[0]
    except struct.error:
        raise ValueError(f"{_BROKEN}: they point behind their end") from None


class Table:
    """A table at a position in `data`; its fields are read by slot."""

    __slots__ = ("_at", "_data", "_size", "_slots")

    def __init__(self, data, at):
        self._data = data
        self._at = at
        self._slots = at - _read(data, "<i", at)
        self._size = _read(data, "<H", self._slots)

    def _place(self, slot):
        """The position of the field; None if the table has no such field."""
        entry = 4 + 2 * slot
        if entry + 2 > self._size:
            return None
        offset = _read(self._data, "<H", self._slots + entry)
        return self._at + offset if offset else None

    def number(self, slot, form="<i", default=0):
        at = self._place(slot)
        return default if at is None else _read(self._data, form, at)

    def flag(self, slot):
        return self.number(slot, "<B") != 0

    def _target(self, slot):
        at = self._place(slot)
        return None if at is None else at + _read(self._data, "<I", at)

    def table(self, slot):
        at = self._target(slot)
        return None if at is None else Table(self._data, at)

    def text(self, slot):
        at = self._target(slot)
        if at is None:
            return None
        size = _read(self._data, "<I", at)
        found = bytes(self._data[at + 4 : at + 4 + size])
        if len(found) != size:
            raise ValueError(f"{_BROKEN}: a text in them is cut off")
        return found

    def _vector(self, slot, width):
        """The position and number of the elements, all of them within the data."""
        at = self._target(slot)
        if at is None:
            return 0, 0
        count = _read(self._data, "<I", at)
        if at + 4 + count * width > len(self._data):
            raise ValueError(f"{_BROKEN}: a list in them is cut off")
        return at + 4, count

    def tables(self, slot):
        start, count = self._vector(slot, 4)
        places = range(start, start + 4 * count, 4)
        return [Table(self._data, at + _read(self._data, "<I", at)) for at in places]

    def structs(self, slot, form):
        """The elements of a vector of structs, or of numbers, each as a tuple."""
        form = struct.Struct(form)
        start, count = self._vector(slot, form.size)
        return list(form.iter_unpack(self._data[start : start + count * form.size]))


def root(data):
    """The root table of a buffer."""
    return Table(data, _read(data, "<I", 0))


class Vector:
    """A vector to write: of tables, or with `form` of structs, which are tuples of numbers."""

    __slots__ = ("form", "items")

    def __init__(self, items, form=None):
        self.items = items
        self.form = form


def put(fields):
    """The bytes of a table, and of all that it refers to, padded to a multiple of 8.

    A table is a dict of slots: a tuple is the format and the value of a number; bytes are a text; a
    dict is a table, and a `Vector` is one.
    """
    out = bytearray(4)
    _refer(out, 0, _put_table(out, fields))
    _pad(out, 8)
    return bytes(out)


def _refer(out, at, target):
    struct.pack_into("<I", out, at, target - at)


def _pad(out, size, above=0):
    """Align what comes `above` bytes further to a multiple of `size`."""
    out += bytes(-(len(out) + above) % size)


def _put(out, value):
    if isinstance(value, dict):
        return _put_table(out, value)
    if isinstance(value, Vector):
        return _put_vector(out, value)
    _pad(out, 4)
    at = len(out)
    out += struct.pack("<I", len(value)) + value + b"\0"
    return at


def _put_table(out, fields):
    fields = {slot: value for slot, value in fields.items() if value is not None}
    places, size = {}, 4
    for slot, value in fields.items():
        width = struct.calcsize(value[0]) if type(value) is tuple else 4
        size += -size % width
        places[slot] = size
        size += width
    slots = [places.get(slot, 0) for slot in range(max(fields, default=-1) + 1)]
    head = struct.pack(f"<{len(slots) + 2}H", 2 * len(slots) + 4, size, *slots)
    _pad(out, 8, len(head))
    out += head
    at = len(out)
    out += struct.pack("<i", len(head)) + bytes(size - 4)
    for slot, value in fields.items():
        if type(value) is tuple:
            struct.pack_into(value[0], out, at + places[slot], value[1])
    for slot, value in fields.items():
        if type(value) is not tuple:
            _refer(out, at + places[slot], _put(out, value))
    return at


def _put_vector(out, vector):
    items = vector.items
    if vector.form is not None:
        _pad(out, 8, 4)
        at = len(out)
        out += struct.pack("<I", len(items))
        for item in items:
            out += struct.pack(vector.form, *item)
        return at
    _pad(out, 4)
    at = len(out)
    out += struct.pack("<I", len(items)) + bytes(4 * len(items))
    for place, item in enumerate(items):
        _refer(out, at + 4 + 4 * place, _put(out, item))
    return at
