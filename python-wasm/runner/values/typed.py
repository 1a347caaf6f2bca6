"""Any object as typed JSON with separate buffers, within limits: docs/reference/values.md.

With the same caution as in `values`: the real type decides, the data of built-in types is read with
those types' own methods, and exceptions of foreign code affect only that value. Nothing is
truncated: values that do not fit are left out as a whole, and marked.
"""

import collections
import datetime
import decimal
import fractions
import itertools
import math
import pathlib
import re
import struct
import sys
import types
import uuid

from _belljar.protocol import interrupt
from _belljar.protocol.door import encode as _json
from _belljar.protocol.door import encoded_size
from _belljar.protocol.inspecting import (
    exact_str,
    is_kind,
    mro_of,
    text_of,
    type_module,
    type_name,
    type_qualname,
)
from _belljar.values import tables, values
from _belljar.values.tables import TooLargeError, UntypedError

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_REPR_LIMIT = 10_000
_OVERHEAD = 2  # bytes of punctuation counted for each value
_TAGGED = 24  # and for each object with a tag
_BUFFER = 40  # and for each buffer
_decimal_text = re.compile(r"[-+]?(\d[\d.]*([eE][-+]?\d+)?|s?NaN\d*|Infinity)").fullmatch
_fraction_text = re.compile(r"-?\d+(/\d+)?").fullmatch
_modules = sys.modules
_pack = struct.Struct("<I").pack


class Limits(values.Limits):
    """The bytes of arrays and `bytes`, and the head for everything else."""

    __slots__ = ("max_head",)

    def __init__(self, max_depth, max_items, max_head, max_bytes):
        super().__init__(max_depth, max_items, max_bytes)
        self.max_head = max_head


class Encoded:
    """A payload for the host. Keep `kept` alive until the host has read its memory."""

    __slots__ = ("kept", "payload", "truncated")

    def __init__(self, payload, kept, truncated):
        self.payload = payload
        self.kept = kept
        self.truncated = truncated


def encode(value, limits):
    """`value` in the host's format."""
    encoder = Encoder(limits)
    try:
        plain = encoder.value(value, 0)
    except TooLargeError:
        encoder = Encoder(limits)
        plain = encoder.omitted(value, "large")
    return Encoded(_payload(encoder, plain), encoder.kept, encoder.truncated)


def encode_whole(value, limits):
    """`value` with all its bytes, and nothing left out.

    Raises TypeError for objects without a typed form, and TooLargeError beyond a limit.
    """
    encoder = _Whole(limits)
    try:
        return _payload(encoder, encoder.value(value, 0))
    except TooLargeError:
        if encoder.problem is None:
            raise
    raise TypeError(encoder.problem)


def _payload(encoder, plain):
    head = _json([encoder.buffers, plain])
    return b"".join((_pack(len(head)), head, *encoder.pieces))


class Encoder:
    """One value during conversion: the remaining limits, and the containers being converted."""

    def __init__(self, limits):
        self.limits = limits
        self.truncated = False
        self.buffers = []
        self.pieces = []
        self.kept = []
        self._items = limits.max_items
        self._head = limits.max_head
        self._bytes = limits.max_bytes
        self._offset = 0
        self._open = []

    def value(self, value, depth):
        self._items -= 1
        self.charge(_OVERHEAD)
        if self._items < 0:
            raise TooLargeError
        if value is None or value is True or value is False:
            return value
        try:
            rule = _RULES.get(type(value)) or tables.rule_for(value) or _inherited_rule(value)
            if rule is not None:
                return rule(self, value, depth)
        except (TooLargeError, interrupt.Interrupted):
            raise
        except UntypedError:
            pass
        except BaseException:
            return self._opaque(value, f"<unreadable {type_name(type(value))} object>")
        return self._shown(value)

    def _shown(self, value):
        try:
            text, cut = text_of(value, _REPR_LIMIT)
        except interrupt.Interrupted:
            raise
        except BaseException:
            text, cut = f"<unreadable {type_name(type(value))} object>", False
        self.truncated |= cut
        return self._opaque(value, text)

    def omitted(self, value, reason):
        """The placeholder for a value that is left out."""
        self.truncated = True
        return self._opaque(value, f"<{reason} {type_name(type(value))}>", reason=reason)

    def _opaque(self, value, text, **more):
        cls = type(value)
        name = f"{type_module(cls)}.{type_qualname(cls)}"[:_REPR_LIMIT]
        # Both may contain characters that JSON cannot represent, which the door escapes.
        self.charge(_TAGGED + encoded_size(text) + encoded_size(name))
        return {"$": "opaque", "class": name, "repr": text, **more}

    def tagged(self, tag, **fields):
        self.charge(_TAGGED)
        return {"$": tag, **fields}

    def charge(self, size):
        self._head -= size
        if self._head < 0:
            raise TooLargeError

    def text(self, text):
        """An exact string that JSON can represent."""
        self.charge(encoded_size(text))
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UntypedError from None
        return text

    def integer(self, value):
        self.charge(8)
        if _SMALLEST <= value <= _LARGEST:
            return value
        self.charge(value.bit_length() // 4)
        return self.tagged("int", value=hex(value))

    def number(self, value):
        self.charge(8)
        if math.isfinite(value):
            return value
        name = "nan" if value != value else "inf" if value > 0 else "-inf"
        return self.tagged("float", value=name)

    def bytes(self, data):
        """The number of a buffer with these bytes."""
        if len(data):
            self.pieces.append(data)
        number = self._buffer(0, self._offset, len(data), 1, 0)
        self._offset += len(data)
        self.charge(len(data))
        return number

    def memory(self, owner, address, size, count, distance):
        """The number of a buffer in memory that `owner` keeps alive."""
        self.kept.append(owner)
        return self._buffer(1, address, size, count, distance)

    def room(self, size):
        """Whether a buffer of that size fits; checked before it is created."""
        return size <= self._bytes

    def _buffer(self, *numbers):
        _, _, size, count, _ = numbers
        if not self.room(size * count):
            raise TooLargeError
        self._bytes -= size * count
        self.charge(_BUFFER)
        self.buffers.append(numbers)
        return len(self.buffers) - 1

    def enter(self, owner, depth):
        """None if the container may be converted, else its placeholder."""
        # By identity, and without `id`, which the code's audit hooks may reject.
        if any(owner is one for one in self._open):
            return self.omitted(owner, "circular")
        if depth >= self.limits.max_depth:
            return self.omitted(owner, "deep")
        self._open.append(owner)
        return None

    def leave(self):
        self._open.pop()

    def items(self, values, depth):
        """The items of the iterator `values`."""
        inner = depth + 1
        return [self.value(value, inner) for value in self.taken(values)]

    def taken(self, values):
        """All items, copied first because converting them may change the container."""
        taken = list(itertools.islice(values, self._items + 1))
        if len(taken) > self._items:
            raise TooLargeError
        return taken


class _Whole(Encoder):
    """Leaves nothing out, and copies memory, which may change before the host reads it."""

    problem = None

    def memory(self, owner, address, size, count, distance):
        return self.bytes(owner.tobytes(order="A"))

    def omitted(self, value, reason):
        if reason != "large":
            how = "holds itself" if reason == "circular" else "is nested too deep"
            self.problem = f"a {type_name(type(value))} {how}"
        raise TooLargeError

    def _shown(self, value):
        return self._opaque(value, "")

    def _opaque(self, value, text, **more):
        self.problem = f"a {type_name(type(value))} has no typed form"
        # An error that no surrounding container handles.
        raise TooLargeError


def _inherited_rule(value):
    for cls in mro_of(type(value)):
        rule = _RULES.get(cls)
        if rule is not None:
            return rule
    return None


def _int(encoder, value, _depth):
    return encoder.integer(int.__pos__(value))


def _float(encoder, value, _depth):
    return encoder.number(float.__pos__(value))


def _complex(encoder, value, _depth):
    value = complex.__pos__(value)
    parts = [encoder.number(value.real), encoder.number(value.imag)]
    return encoder.tagged("complex", value=parts)


def _str(encoder, value, _depth):
    return encoder.text(exact_str(value))


def _bytes(encoder, value, _depth):
    view = memoryview(value)
    if not encoder.room(view.nbytes):
        return encoder.omitted(value, "large")
    return encoder.tagged("bytes", data=encoder.bytes(view.tobytes()))


def _sequence(kind, tag):
    iterate = kind.__iter__

    def rule(encoder, value, depth):
        instead = encoder.enter(value, depth)
        if instead is not None:
            return instead
        try:
            found = encoder.items(iterate(value), depth)
        finally:
            encoder.leave()
        return found if tag is None else encoder.tagged(tag, items=found)

    return rule


def _mapping(items):
    def rule(encoder, value, depth):
        instead = encoder.enter(value, depth)
        if instead is not None:
            return instead
        try:
            pairs = encoder.taken(iter(items(value)))
            if all(type(key) is str and key != "$" for key, _ in pairs):
                try:
                    return {encoder.text(key): encoder.value(one, depth + 1) for key, one in pairs}
                except UntypedError:
                    pass
            found = [
                [encoder.value(key, depth + 1), encoder.value(one, depth + 1)] for key, one in pairs
            ]
        finally:
            encoder.leave()
        return encoder.tagged("dict", items=found)

    return rule


def _as_text(tag, read, is_one):
    def rule(encoder, value, _depth):
        text = exact_str(read(value))
        if not is_one(text):
            raise UntypedError
        return encoder.tagged(tag, value=encoder.text(text))

    return rule


def _anything(_text):
    return True


def _uuid(encoder, value, _depth):
    number = object.__getattribute__(value, "int")
    if type(number) is not int or not 0 <= number < 2**128:
        raise UntypedError
    return encoder.tagged("uuid", value=f"{number:032x}")


def _moment(kind, tag):
    zone_of, fold_of = kind.tzinfo.__get__, kind.fold.__get__

    def rule(encoder, value, _depth):
        zone, more = zone_of(value), {}
        if zone is not None:
            offset = kind.utcoffset(value)
            if offset is not None and offset.microseconds:
                raise UntypedError
            zoneinfo = _modules.get("zoneinfo")
            if zoneinfo is not None and is_kind(zone, zoneinfo.ZoneInfo) and zone.key:
                more["zone"] = encoder.text(exact_str(zone.key))
        if fold_of(value):
            more["fold"] = True
        return encoder.tagged(tag, value=encoder.text(exact_str(kind.isoformat(value))), **more)

    return rule


def _timedelta(encoder, value, _depth):
    parts = (one.__get__(value) for one in _TIMEDELTA)
    return encoder.tagged("timedelta", value=list(parts))


_TIMEDELTA = tuple(
    getattr(datetime.timedelta, name) for name in ("days", "seconds", "microseconds")
)

_RULES = {
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    list: _sequence(list, None),
    tuple: _sequence(tuple, "tuple"),
    set: _sequence(set, "set"),
    frozenset: _sequence(frozenset, "frozenset"),
    collections.deque: _sequence(collections.deque, None),
    dict: _mapping(dict.items),
    collections.OrderedDict: _mapping(collections.OrderedDict.items),
    types.MappingProxyType: _mapping(types.MappingProxyType.items),
    decimal.Decimal: _as_text("decimal", decimal.Decimal.__str__, _decimal_text),
    fractions.Fraction: _as_text("fraction", fractions.Fraction.__str__, _fraction_text),
    uuid.UUID: _uuid,
    pathlib.PurePath: _as_text("path", pathlib.PurePath.__str__, _anything),
    datetime.datetime: _moment(datetime.datetime, "datetime"),
    datetime.date: _as_text("date", datetime.date.isoformat, _anything),
    datetime.time: _moment(datetime.time, "time"),
    datetime.timedelta: _timedelta,
}
