"""Any object as plain JSON values, within limits, as specified in docs/reference/values.md.

Objects are hostile until proven plain: the real type decides, and the data of built-in types is
read with those types' own methods, so that overridden ones do not run. Foreign code runs only if
necessary (`repr`, `isoformat` of a subclass and similar), and its exceptions affect only that
value.
"""

import array
import base64
import collections
import datetime
import decimal
import enum
import fractions
import itertools
import math
import pathlib
import types
import uuid

from _belljar.protocol import interrupt
from _belljar.protocol.door import encoded_size
from _belljar.protocol.inspecting import exact_str, mro_of, text_of, type_name
from _belljar.values import arrays

_DIGITS_BITS = 14_000  # fewer than the 4,300 digits that `str` of an int is allowed
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_REPR_LIMIT = 10_000
_OVERHEAD = 2  # bytes of punctuation counted for each value

_dict_items = dict.items
_list_iter = list.__iter__
_tuple_iter = tuple.__iter__


class Limits:
    __slots__ = ("max_bytes", "max_depth", "max_items")

    def __init__(self, max_depth, max_items, max_bytes):
        self.max_depth = max_depth
        self.max_items = max_items
        self.max_bytes = max_bytes


def convert(value, limits):
    """`value` as plain values, and whether it was truncated."""
    converter = Converter(limits)
    return converter.value(value, 0), converter.truncated


class Converter:
    """One conversion: the remaining bytes, and the containers being converted."""

    def __init__(self, limits):
        self.limits = limits
        self.left = limits.max_bytes
        self.truncated = False
        self._open = []

    def value(self, value, depth):
        try:
            return self._dispatch(value, depth)
        except interrupt.Interrupted:
            raise
        except BaseException:
            return self.text(f"<unreadable {type_name(type(value))} object>")

    def _dispatch(self, value, depth):
        self.left -= _OVERHEAD
        if value is None or value is True or value is False:
            return value
        rule = _RULES.get(type(value)) or arrays.rule_for(value) or _inherited_rule(value)
        if rule is not None:
            return rule(self, value, depth)
        fields = _dataclass_fields(value)
        if fields is not None:
            return self.mapping(fields, value, depth)
        return self.repr(value)

    def repr(self, value):
        text, cut = text_of(value, _REPR_LIMIT)
        self.truncated |= cut
        return self.text(text)

    def text(self, text):
        """A string, truncated so that its JSON form fits into the remaining bytes."""
        room = max(self.left, 0)
        if len(text) > room:
            text = text[:room]
            self.truncated = True
        size = encoded_size(text)
        while size > room:
            text = text[: len(text) * room // size]
            size = encoded_size(text)
            self.truncated = True
        self.left -= size
        return text

    def integer(self, value):
        if _SMALLEST <= value <= _LARGEST:
            self.left -= 8
            return value
        if value.bit_length() <= _DIGITS_BITS:
            return self.text(int.__repr__(value))
        if value.bit_length() // 4 > self.left:
            self.truncated = True
            return self.text(f"<int of {value.bit_length()} bits>")
        return self.text(hex(value))

    def number(self, value):
        if math.isfinite(value):
            self.left -= 8
            return value
        if value != value:
            return self.text("NaN")
        return self.text("Infinity" if value > 0 else "-Infinity")

    def _enter(self, owner, depth):
        """None if the container may be converted, else its placeholder."""
        # By identity, and without `id`, which the code's audit hooks may reject.
        if any(owner is one for one in self._open):
            return self.text(f"<circular {type_name(type(owner))}>")
        if depth >= self.limits.max_depth:
            self.truncated = True
            return self.text(f"<nested too deep: {type_name(type(owner))}>")
        self._open.append(owner)
        return None

    def sequence(self, values, owner, depth):
        """An array of the items of the iterator `values`; `owner` is the container."""
        instead = self._enter(owner, depth)
        if instead is not None:
            return instead
        try:
            found = []
            for value in self._bounded(values):
                if self.left <= 0:
                    self.truncated = True
                    break
                found.append(self.value(value, depth + 1))
            return found
        finally:
            self._open.pop()

    def mapping(self, pairs, owner, depth):
        """An object of the items of the iterator `pairs`."""
        instead = self._enter(owner, depth)
        if instead is not None:
            return instead
        try:
            found = {}
            for key, value in self._bounded(pairs):
                if self.left <= 0:
                    self.truncated = True
                    break
                found[self._fresh(self.key(key), found)] = self.value(value, depth + 1)
            return found
        finally:
            self._open.pop()

    def _bounded(self, values):
        """The first items, copied first because converting them may change the container."""
        most = self.limits.max_items
        taken = list(itertools.islice(values, most + 1))
        if len(taken) > most:
            self.truncated = True
            del taken[most:]
        return taken

    def key(self, key):
        """The string for a key: its JSON form, else its `repr`."""
        found = self.value(key, self.limits.max_depth - 1)
        if type(found) is str:
            return found
        if found is None or type(found) is bool:
            return {None: "null", True: "true", False: "false"}[found]
        if type(found) in (int, float):
            return repr(found)
        return self.repr(key)

    @staticmethod
    def _fresh(key, taken):
        """Different keys that look the same, such as 1 and "1", are all kept."""
        if key not in taken:
            return key
        number = 2
        while f"{key} ({number})" in taken:
            number += 1
        return f"{key} ({number})"


def _inherited_rule(value):
    for cls in mro_of(type(value)):
        rule = _RULES.get(cls)
        if rule is not None:
            return rule
    return None


def _dataclass_fields(value):
    """Pairs of field and value of a dataclass instance, bypassing its own attribute access."""
    for cls in mro_of(type(value)):
        fields = type.__getattribute__(cls, "__dict__").get("__dataclass_fields__")
        if type(fields) is dict:
            return [
                (name, object.__getattribute__(value, name))
                for name, field in fields.items()
                if type(name) is str and _is_field(field)
            ]
    return None


def _is_field(field):
    kind = getattr(field, "_field_type", None)
    return kind is not None and repr(kind) == "_FIELD"


def _int(converter, value, _depth):
    return converter.integer(int.__pos__(value))


def _float(converter, value, _depth):
    return converter.number(float.__pos__(value))


def _str(converter, value, _depth):
    return converter.text(exact_str(value))


def _bytes(converter, value, _depth):
    room = max(converter.left, 0) // 4 * 3
    data = bytes(memoryview(value)[: room + 3])
    if len(memoryview(value)) > len(data):
        converter.truncated = True
    return converter.text(base64.b64encode(data).decode())


def _dict(converter, value, depth):
    return converter.mapping(_dict_items(value), value, depth)


def _ordered(converter, value, depth):
    return converter.mapping(collections.OrderedDict.items(value), value, depth)


def _wrapped(converter, value, depth):
    return converter.value(object.__getattribute__(value, "data"), depth)


def _list(converter, value, depth):
    return converter.sequence(_list_iter(value), value, depth)


def _tuple(converter, value, depth):
    names = _namedtuple_fields(type(value))
    if names is not None:
        pairs = zip(names, _tuple_iter(value), strict=False)
        return converter.mapping(pairs, value, depth)
    return converter.sequence(_tuple_iter(value), value, depth)


def _namedtuple_fields(cls):
    for base in mro_of(cls):
        names = type.__getattribute__(base, "__dict__").get("_fields")
        if type(names) is tuple and all(type(name) is str for name in names):
            return names
    return None


def _set(converter, value, depth):
    kind = set if set in mro_of(type(value)) else frozenset
    found = converter.sequence(kind.__iter__(value), value, depth)
    if type(found) is list:
        found.sort(key=_order)
    return found


def _order(plain):
    """Numbers by size, then strings, then the rest by text: a deterministic order."""
    if type(plain) in (int, float):
        return (0, plain, "")
    if type(plain) is str:
        return (1, 0, plain)
    return (2, 0, repr(plain))


def _range(converter, value, depth):
    return converter.sequence(range.__iter__(value), value, depth)


def _deque(converter, value, depth):
    return converter.sequence(collections.deque.__iter__(value), value, depth)


def _numbers(converter, value, depth):
    return converter.sequence(array.array.__iter__(value), value, depth)


def _view(converter, value, depth):
    for kind in _VIEWS:
        if kind in mro_of(type(value)):
            return converter.sequence(kind.__iter__(value), value, depth)
    return converter.repr(value)


def _proxy(converter, value, depth):
    return converter.mapping(list(types.MappingProxyType.items(value)), value, depth)


def _namespace(converter, value, depth):
    held = types.SimpleNamespace.__dict__["__dict__"].__get__(value)
    return converter.mapping(_dict_items(held), value, depth)


def _enum(converter, value, depth):
    return converter.value(object.__getattribute__(value, "_value_"), depth)


def _complex(converter, value, _depth):
    return converter.text(complex.__repr__(value))


def _decimal(converter, value, _depth):
    return converter.text(exact_str(decimal.Decimal.__str__(value)))


def _fraction(converter, value, _depth):
    return converter.text(exact_str(fractions.Fraction.__str__(value)))


def _uuid(converter, value, _depth):
    return converter.text(exact_str(uuid.UUID.__str__(value)))


def _path(converter, value, _depth):
    return converter.text(exact_str(pathlib.PurePath.__str__(value)))


def _iso(kind):
    def rule(converter, value, _depth):
        if arrays.is_missing(value):
            return None
        return converter.text(exact_str(kind.isoformat(value)))

    return rule


def _timedelta(converter, value, _depth):
    if arrays.is_missing(value):
        return None
    return converter.number(datetime.timedelta.total_seconds(value))


_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))

_RULES = {
    enum.Enum: _enum,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    dict: _dict,
    collections.OrderedDict: _ordered,
    collections.UserDict: _wrapped,
    collections.UserList: _wrapped,
    collections.UserString: _wrapped,
    arrays.Row: arrays.row,
    types.MappingProxyType: _proxy,
    types.SimpleNamespace: _namespace,
    list: _list,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    range: _range,
    array.array: _numbers,
    collections.deque: _deque,
    decimal.Decimal: _decimal,
    fractions.Fraction: _fraction,
    uuid.UUID: _uuid,
    pathlib.PurePath: _path,
    datetime.datetime: _iso(datetime.datetime),
    datetime.date: _iso(datetime.date),
    datetime.time: _iso(datetime.time),
    datetime.timedelta: _timedelta,
    **dict.fromkeys(_VIEWS, _view),
}
