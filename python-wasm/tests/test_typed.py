"""Typed values: conversion in both directions, and objects that lie."""

import ctypes
import datetime
import decimal
import fractions
import json
import math
import pathlib
import struct
import types
import uuid
import zoneinfo

import numpy as np
import pandas as pd
import pytest

from _belljar.values import building, tables, typed

LIMITS = typed.Limits(32, 10_000, 1 << 20, 1 << 24)


def form(value, limits=LIMITS):
    """The head of an encoded value: buffers and the tagged form."""
    payload = typed.encode(value, limits).payload
    (length,) = struct.unpack_from("<I", payload)
    return json.loads(payload[4 : 4 + length])


def as_host(encoded):
    """The payload that a host would send back: with every buffer after the head."""
    payload = encoded.payload
    (length,) = struct.unpack_from("<I", payload)
    buffers, value = json.loads(payload[4 : 4 + length])
    rest, places, data = payload[4 + length :], [], b""
    for kind, at, size, count, distance in buffers:
        held = b""
        for piece in range(count):
            start = at + piece * distance
            held += ctypes.string_at(start, size) if kind else rest[start : start + size]
        places.append([0, len(data), len(held), 1, 0])
        data += held
    head = json.dumps([places, value]).encode()
    return struct.pack("<I", len(head)) + head + data


def there_and_back(value):
    return building.decode(as_host(typed.encode(value, LIMITS)))


SAME = [
    None,
    True,
    0,
    -(2**63),
    2**63,
    -(2**200),
    1.5,
    -0.0,
    math.inf,
    -math.inf,
    1 + 2j,
    "",
    "größe 🐍",
    b"\0\xff",
    b"x" * 10_000,
    [1, [2, "x"]],
    (1, (2,)),
    {1, "a", (2, 3)},
    frozenset((1, 2)),
    {"a": {"b": [None]}},
    {1: "x", (2, 3): "y", None: "z", b"k": {}},
    {"$": "tuple", "items": 1},
    decimal.Decimal("1.10"),
    decimal.Decimal("-Infinity"),
    decimal.Decimal("1E+30"),
    fractions.Fraction(-1, 3),
    datetime.date(2024, 2, 29),
    datetime.time(1, 2, 3, 4, fold=1),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(seconds=-3661))),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.timedelta(days=-1, seconds=5, microseconds=7),
    uuid.UUID(int=7),
    pathlib.Path("/tmp/a b"),
]


@pytest.mark.parametrize("value", SAME, ids=repr)
def test_what_python_has(value):
    found = there_and_back(value)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_nan_and_negative_zero():
    assert math.isnan(there_and_back(math.nan))
    assert math.copysign(1, there_and_back(-0.0)) == -1
    assert form([math.nan])[1] == [{"$": "float", "value": "nan"}]


def test_plain_values_stand_for_themselves():
    value = {"a": [1, 2.5, None, "x"], "b": {}}
    assert form(value) == [[], value]


SCALARS = [
    np.float64(1.5),
    np.float32(0.1),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.complex64(1 + 2j),
    np.str_("é"),
    np.bytes_(b"ab"),
    np.datetime64("2024-01-02T03:04:05.000000006"),
    np.timedelta64(5, "D"),
]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_numpy_scalars(value):
    found = there_and_back(value)
    assert found == value
    assert found.dtype == value.dtype


def test_a_time_that_is_none_stays_so():
    found = there_and_back(np.datetime64("NaT", "s"))
    assert np.isnat(found)
    assert found.dtype == "M8[s]"


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.arange(10_000, dtype="i4"),
    np.arange(20_000.0)[::2],
    np.arange(20_000.0)[::-1],
    np.asfortranarray(np.arange(6000.0).reshape(2, 3000)),
    np.arange(60_000.0).reshape(20, 30, 100)[:, ::2],
    np.array(3.5),
    np.empty((0, 4)),
    np.array([True, False]),
    np.array(["a", "ßß"]),
    np.array([b"a", b"bcd"]),
    np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
    np.array([1, 2], dtype="m8[25us]"),
    np.array([1 + 1j], dtype="c8"),
    np.array([1.5], dtype="f2"),
    np.arange(3, dtype=">i4"),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([None, "x", [1, 2]], dtype=object),
    np.broadcast_to(np.float64(2), (3, 1000)),
    np.array([b"ab"], dtype="V2"),
]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays(value):
    found = there_and_back(value)
    assert found.dtype == value.dtype.newbyteorder("<")
    assert found.shape == value.shape
    assert found.tolist() == value.tolist() or np.isnat(value).any()
    assert found.flags.writeable


def test_large_arrays_are_left_where_they_are():
    value = np.arange(10_000.0)
    buffers, plain = form(value)
    assert buffers == [[1, value.ctypes.data, 80_000, 1, 0]]
    assert plain == {"$": "array", "dtype": "<f8", "shape": [10_000], "data": 0}
    assert form(value[::2])[0] == [[1, value.ctypes.data, 8, 5_000, 16]]


def stamps(zone):
    return pd.date_range("2024-01-01", periods=3, tz=zone)


SERIES = [
    pd.Series([1, 2], name="x"),
    pd.Series([1.5, math.nan], index=["a", "b"]),
    pd.Series(["a", None, "ß"]),
    pd.Series(["a", "b"], dtype="string"),
    pd.Series(["a", None, 3], dtype=object),
    pd.Series([1, None], dtype="Int64"),
    pd.Series([1.5, None], dtype="Float32"),
    pd.Series([True, None], dtype="boolean"),
    pd.Series(["x", "y", None, "x"], dtype="category"),
    pd.Series(pd.Categorical([2, 1], categories=[1, 2], ordered=True)),
    pd.Series(stamps(None)),
    pd.Series(stamps("Europe/Berlin")),
    pd.Series(stamps("UTC")).astype("datetime64[s, UTC]"),
    pd.Series([pd.Timedelta("1D"), pd.NaT]),
    pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
    pd.Series([], dtype="float64"),
    pd.Series([1, 2], index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None])),
    pd.Series([1, 2], index=stamps("UTC")[:2]),
    pd.Series([1, 2, 3], index=pd.RangeIndex(5, 11, 2, name="n")),
    pd.Series([1, 2], index=pd.CategoricalIndex(["a", "b"])),
]


@pytest.mark.parametrize("value", SERIES, ids=lambda s: f"{s.dtype} {type(s.index).__name__}")
def test_series(value):
    found = there_and_back(value)
    pd.testing.assert_series_equal(found, value, check_freq=False, check_index_type="equiv")
    assert found.dtype == value.dtype


FRAMES = [
    pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, 2.5]}),
    pd.DataFrame(np.arange(12.0).reshape(3, 4)),
    pd.DataFrame(np.arange(8_000.0).reshape(2_000, 4), columns=list("abcd")),
    pd.DataFrame({("a", 1): [1], ("a", 2): [2]}),
    pd.DataFrame(),
    pd.DataFrame(index=[1, 2]),
    pd.DataFrame([[1, 2]], columns=["same", "same"]),
]


@pytest.mark.parametrize("value", FRAMES, ids=lambda f: str(f.shape))
def test_frames(value):
    found = there_and_back(value)
    pd.testing.assert_frame_equal(found, value, check_column_type="equiv")


def test_other_objects_of_pandas():
    stamp = pd.Timestamp("2024-01-01 12:00", tz="Europe/Berlin")
    assert there_and_back(stamp) == stamp
    assert there_and_back(pd.Timestamp("2024-01-01").as_unit("s")).unit == "s"
    assert there_and_back(pd.Timedelta("1D")) == np.timedelta64(1, "D")
    assert there_and_back(pd.NaT) is pd.NaT
    assert there_and_back(pd.NA) is pd.NA
    cats = pd.Categorical(["a", "b"])
    assert there_and_back(cats).equals(cats)
    pd.testing.assert_index_equal(
        there_and_back(pd.Index([1, 2], name="i")), pd.Index([1, 2], name="i")
    )


def opaque(value, limits=LIMITS):
    plain = form(value, limits)[1]
    assert plain["$"] == "opaque"
    return plain


def test_what_has_no_typed_form():
    class Point:
        def __repr__(self):
            return "Point()"

    found = opaque(Point())
    assert found["repr"] == "Point()"
    assert found["class"].endswith("Point")
    for value in (
        len,
        types.SimpleNamespace(),
        "\udc80",
        np.ma.array([1], mask=[True]),
        pd.Period("2024"),
        np.longdouble(1),
        np.array([(1, 2)], dtype=np.dtype([("a", "i1"), ("b", "i4")], align=True)),
    ):
        opaque(value)
    with pytest.raises(ValueError, match="not known"):
        there_and_back(Point())


def test_circles_depth_and_size():
    circle = [1]
    circle.append({"x": circle})
    assert form(circle)[1][1]["x"]["reason"] == "circular"
    frame = pd.DataFrame({"a": [None]})
    frame.at[0, "a"] = frame
    json.dumps(form(frame))
    deep = []
    for _ in range(100):
        deep = [deep]
    text = json.dumps(form(deep))
    assert '"deep"' in text
    assert typed.encode(deep, LIMITS).truncated
    assert opaque([0] * 20_000)["reason"] == "large"
    assert opaque("x" * (2 << 20))["reason"] == "large"
    assert opaque(2 ** (2**24))["reason"] == "large"
    assert form([1, np.zeros(1 << 22)])[1][1]["reason"] == "large"
    assert form([1, bytes(1 << 25)])[1][1]["reason"] == "large"
    assert opaque(np.broadcast_to(np.float64(1), (1 << 40,)))["reason"] == "large"
    assert opaque(pd.DataFrame(np.zeros((1 << 20, 4))))["reason"] == "large"
    assert not typed.encode([1], LIMITS).truncated


def test_overridden_methods_do_not_run():
    def explode(*_, **__):
        raise AssertionError("ran")

    methods = dict.fromkeys(
        ("__iter__", "__len__", "__getitem__", "items", "keys", "__repr__", "__str__", "__eq__"),
        explode,
    )

    def lying(base, *args):
        return type("Lying", (base,), {**methods, "__class__": property(explode)})(*args)

    assert form(lying(dict, {"a": 1}))[1] == {"a": 1}
    assert form(lying(list, [1]))[1] == [1]
    assert form(lying(str, "x"))[1] == "x"
    assert form(lying(int, 5))[1] == 5
    assert form(lying(float, 1.5))[1] == 1.5
    assert form(lying(tuple, (1,)))[1] == {"$": "tuple", "items": [1]}
    stamp = lying(datetime.datetime, 2024, 1, 1)
    assert form(stamp)[1]["value"] == "2024-01-01T00:00:00"


def test_arrays_that_lie():
    class Lying(np.ndarray):
        dtype = np.dtype("f8")
        nbytes = 1 << 60
        shape = (10**9,)
        __array_interface__ = {"data": (0, False)}

        def tobytes(self, *_):
            return b"lies"

    value = np.arange(4, dtype="i4").view(Lying)
    assert there_and_back(value).tolist() == [0, 1, 2, 3]
    fake = type("ndarray", (), {"__module__": "numpy", "__array__": lambda *_: 1 / 0})()
    opaque(fake)


def test_zones_that_lie():
    class Zone(datetime.tzinfo):
        def utcoffset(self, _):
            return datetime.timedelta(microseconds=1)

    opaque(datetime.datetime(2024, 1, 1, tzinfo=Zone()))

    class Raising(Zone):
        def utcoffset(self, _):
            raise SystemExit

    assert "unreadable" in opaque(datetime.datetime(2024, 1, 1, tzinfo=Raising()))["repr"]


def test_numbers_that_lie():
    value = uuid.UUID(int=1)
    object.__setattr__(value, "int", "text")
    opaque(value)
    fraction = fractions.Fraction(1, 2)
    fraction._numerator = "text"
    opaque(fraction)


def test_a_container_that_changes_while_it_is_read():
    class Growing:
        def __repr__(self):
            held.append(Growing())
            return "x"

    held = [Growing()]
    assert len(form(held)[1]) == 1


def framed(head, rest=b""):
    head = json.dumps(head).encode()
    return struct.pack("<I", len(head)) + head + rest


@pytest.mark.parametrize(
    "head",
    [
        [[], {"$": "pickle", "data": 0}],
        [[], {"$": "bytes", "data": 0}],
        [[], {"$": "bytes", "data": -1}],
        [[[0, 0, 9, 1, 0]], {"$": "bytes", "data": 0}],
        [[[0, -4, 4, 1, 0]], {"$": "bytes", "data": 0}],
        [[[1, 0, 1, 1, 0]], {"$": "bytes", "data": 0}],
        [[[0, 0, 1, 4, 1]], {"$": "bytes", "data": 0}],
        [[[0, 0, 4, 1, 0]], {"$": "array", "dtype": "O", "shape": [1], "data": 0}],
        [[[0, 0, 4, 1, 0]], {"$": "array", "dtype": [["a", "O"]], "shape": [1], "data": 0}],
        [[[0, 0, 4, 1, 0]], {"$": "array", "dtype": "<i4", "shape": [2], "data": 0}],
        [[[0, 0, 3, 1, 0]], {"$": "array", "dtype": "<i4", "shape": [1], "data": 0}],
        [[], {"$": "set", "items": [[]]}],
        [[], {"$": "dict", "items": [[1]]}],
        [[], {"$": "float", "value": "__import__('os')"}],
        [[], {"$": "date", "value": "x"}],
    ],
    ids=str,
)
def test_payloads_that_lie_are_refused(head):
    with pytest.raises(Exception):  # noqa: B017, PT011
        building.decode(framed(head, b"rest"))


def test_payloads_that_are_deep_are_refused():
    payload = b"[[]," + b"[" * 500 + b"]" * 500 + b"]"
    with pytest.raises(ValueError, match="deep"):
        building.decode(struct.pack("<I", len(payload)) + payload)


def test_truth_values_are_no_other_bytes():
    head = [[[0, 0, 3, 1, 0]], {"$": "array", "dtype": "|b1", "shape": [3], "data": 0}]
    found = building.decode(framed(head, b"\x00\x07\x01"))
    assert found.view("u1").tolist() == [0, 1, 1]


def test_an_interrupt_is_not_caught(monkeypatch):
    from _belljar.protocol import interrupt

    class Stopped:
        def __repr__(self):
            raise interrupt.Interrupted

    with pytest.raises(interrupt.Interrupted):
        typed.encode([Stopped()], LIMITS)


def test_rules_know_their_libraries():
    assert tables.rule_for(np.zeros(1)) is not None
    assert tables.rule_for(3) is None
