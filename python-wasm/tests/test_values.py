"""`values.convert`, against docs/reference/values.md."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import types
import typing
import uuid

import pytest

from _belljar.protocol import door as door_module
from _belljar.protocol import interrupt
from _belljar.values import values

WIDE = values.Limits(max_depth=32, max_items=1_000, max_bytes=100_000)


def plain(value, **limits):
    return converted(value, **limits)[0]


def converted(value, max_depth=32, max_items=1_000, max_bytes=100_000):
    return values.convert(value, values.Limits(max_depth, max_items, max_bytes))


class Colour(enum.Enum):
    RED = "r"


class Number(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Point(typing.NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Address:
    street: str
    lines: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: int = 1


CASES = [
    (None, None),
    (True, True),
    (7, 7),
    (-(2**63), -(2**63)),
    (2**64 - 1, 2**64 - 1),
    (2**64, "18446744073709551616"),
    (-(2**63) - 1, "-9223372036854775809"),
    (1.5, 1.5),
    (1e300, 1e300),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    ("é\ud800", "é\ud800"),
    (b"abc", "YWJj"),
    (bytearray(b"abc"), "YWJj"),
    (memoryview(b"abc"), "YWJj"),
    ((1, (2,)), [1, [2]]),
    ([], []),
    ({}, {}),
    ({"a": {"b": [1]}}, {"a": {"b": [1]}}),
    ({1: 1, "1": 2, None: 3, 2.5: 4}, {"1": 1, "1 (2)": 2, "null": 3, "2.5": 4}),
    ({True: 5}, {"true": 5}),
    ({(1, 2): 3}, {"(1, 2)": 3}),
    ({datetime.date(2024, 1, 2): 1}, {"2024-01-02": 1}),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset("ba"), ["a", "b"]),
    ({"b", 2, None, 1.5, (1,)}, [1.5, 2, "b", None, [1]]),
    (range(3), [0, 1, 2]),
    (collections.deque([1, 2]), [1, 2]),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (collections.UserDict(a=1), {"a": 1}),
    (collections.UserList([1]), [1]),
    (collections.UserString("s"), "s"),
    (array.array("d", [1.5]), [1.5]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [["a", 1]]),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (types.SimpleNamespace(a=1), {"a": 1}),
    (decimal.Decimal("1.10"), "1.10"),
    (fractions.Fraction(1, 3), "1/3"),
    (1 + 2j, "(1+2j)"),
    (Colour.RED, "r"),
    (Number.ONE, 1),
    (Bits.A | Bits.B, 3),
    (Point(1, 2), {"x": 1, "y": 2}),
    (Address("s", [Address("t")]), {"street": "s", "lines": [{"street": "t", "lines": []}]}),
    (Slotted(), {"a": 1}),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (datetime.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
    (
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "2024-01-02T00:00:00+00:00",
    ),
    (datetime.date(2024, 1, 2), "2024-01-02"),
    (datetime.time(3, 4), "03:04:00"),
    (datetime.timedelta(minutes=1.5), 90.0),
    (print, "<built-in function print>"),
    (int, "<class 'int'>"),
    (ValueError("x"), "ValueError('x')"),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[repr(case[0])[:40] for case in CASES])
def test_each_kind(value, expected):
    found, truncated = converted(value)
    assert found == expected
    assert type(found) is type(expected)
    assert not truncated


def test_minus_zero_stays():
    assert math.copysign(1, plain(-0.0)) == -1


def test_an_ordered_dict_is_in_its_order():
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert list(plain(ordered)) == ["b", "a"]


def test_generators_are_not_run():
    ran = []
    generator = (ran.append(x) for x in [1])
    assert plain(generator).startswith("<generator object")
    assert not ran


def test_huge_integers_are_exact():
    assert plain(10**4_000) == "1" + "0" * 4_000
    assert plain(1 << 40_000) == hex(1 << 40_000)
    assert converted(1 << 4_000_000) == ("<int of 4000001 bits>", True)


def test_cycles_are_named():
    loop = [1]
    loop.append({"again": loop})
    assert plain(loop) == [1, {"again": "<circular list>"}]
    shared = [1]
    assert plain([shared, shared]) == [[1], [1]]


def test_depth_is_bounded():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    found, truncated = converted(deep, max_depth=3)
    assert found == [[["<nested too deep: list>"]]]
    assert truncated
    assert converted([[[]]], max_depth=3) == ([[[]]], False)


def test_items_are_bounded():
    assert converted(list(range(10)), max_items=3) == ([0, 1, 2], True)
    assert converted({n: n for n in range(10)}, max_items=1) == ({"0": 0}, True)
    assert converted([1, 2, 3], max_items=3) == ([1, 2, 3], False)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        "é" * 10**6,
        b"x" * 10**6,
        ["x" * 100] * 900,
        [[0] * 900] * 900,
        {"k" * 100 + str(n): n for n in range(900)},
        ["\x00" * 900] * 900,
        list(range(900)) * 900,
    ],
    ids=["text", "wide text", "bytes", "texts", "numbers", "keys", "controls", "many"],
)
def test_bytes_are_bounded(value):
    found, truncated = converted(value, max_bytes=10_000, max_items=10**6)
    assert truncated
    assert len(door_module.encode(found)) <= 10_000 * 1.1


def test_what_is_cut_is_cut_between_characters():
    found, _ = converted("é" * 100, max_bytes=51)
    assert set(found) == {"é"}


class Liar:
    __class__ = dict

    def __repr__(self):
        return "honest"


class Boxes:
    class Dict(dict):
        def items(self):
            raise ValueError

        __iter__ = keys = __len__ = __getitem__ = items

    class List(list):
        def __iter__(self):
            raise ValueError

        __len__ = __getitem__ = __iter__

    class Text(str):
        def __str__(self):
            raise ValueError

        __len__ = encode = __iter__ = __getitem__ = __str__

    class Int(int):
        def __int__(self):
            raise ValueError

        __index__ = __add__ = __repr__ = __lt__ = __le__ = __ge__ = __abs__ = __int__

    class Float(float):
        def __float__(self):
            raise ValueError

        __eq__ = __ne__ = __gt__ = __repr__ = __float__
        __hash__ = float.__hash__

    class Bytes(bytes):
        def __getitem__(self, item):
            raise ValueError

        __len__ = __iter__ = __getitem__

    class When(datetime.datetime):
        def isoformat(self, *args):
            raise ValueError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Liar(), "honest"),
        (Boxes.Dict(a=1), {"a": 1}),
        (Boxes.List([1]), [1]),
        (Boxes.Text("t"), "t"),
        (Boxes.Int(5), 5),
        (Boxes.Float(2.5), 2.5),
        (Boxes.Float("nan"), "NaN"),
        (Boxes.Bytes(b"abc"), "YWJj"),
        (Boxes.When(2024, 1, 1), "2024-01-01T00:00:00"),
        ({Boxes.Text("k"): 1}, {"k": 1}),
    ],
    ids=["class", "dict", "list", "str", "int", "float", "nan", "bytes", "datetime", "key"],
)
def test_overridden_methods_do_not_run(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.loads(door_module.encode(found))


def hostile(**methods):
    return type("Hostile", (), methods)()


def _raise(*_):
    raise ValueError


def _exit(*_):
    raise SystemExit(3)


@pytest.mark.parametrize(
    "value",
    [
        hostile(__repr__=_raise),
        hostile(__repr__=_exit),
        hostile(__repr__=lambda self: 5),
        hostile(__repr__=lambda self: repr(self)),
        type("M", (type,), {"__hash__": _raise, "__eq__": _raise})("Hostile", (), {})(),
        type("M", (type,), {"mro": lambda cls: [cls, object]})(
            "Hostile", (), {"__repr__": _raise}
        )(),
    ],
    ids=["raises", "exits", "no str", "recurses", "metaclass", "mro"],
)
def test_one_hostile_value_costs_only_itself(value):
    found = plain([1, value, 2])
    assert found[0] == 1
    assert found[2] == 2
    assert "Hostile" in found[1]


def test_keys_that_cannot_be_read():
    assert plain({hostile(__repr__=_raise): 1}) == {"<unreadable Hostile object>": 1}


def test_a_long_repr_is_cut():
    found, truncated = converted(hostile(__repr__=lambda self: "x" * 10**6))
    assert len(found) == 10_000
    assert truncated


def test_a_container_that_changes_while_it_is_read():
    box = []
    box.append(hostile(__repr__=lambda self: box.append(self) or "x"))
    assert plain(box) == ["x"]
    table = {}
    table["a"] = hostile(__repr__=lambda self: table.update(b=self) or "x")
    assert plain(table) == {"a": "x"}


def test_a_dataclass_that_lies():
    @dataclasses.dataclass
    class Data:
        a: int = 1

        def __getattribute__(self, name):
            raise ValueError

    assert plain(Data()) == {"a": 1}
    assert plain(type("Fake", (), {"__dataclass_fields__": 5})()).startswith("<")
    broken = Address("s")
    del broken.street
    assert plain([broken]) == ["<unreadable Address object>"]


def test_an_interrupt_is_not_swallowed():
    def stop(self):
        raise interrupt.Interrupted

    with pytest.raises(interrupt.Interrupted):
        plain([hostile(__repr__=stop)])


def test_every_value_can_be_sent():
    for value, _ in CASES:
        json.loads(door_module.encode(plain(value)))
