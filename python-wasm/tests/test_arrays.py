"""numpy and pandas objects as plain values."""

import json

import numpy as np
import pandas as pd
import pytest

from _belljar.protocol import door as door_module
from _belljar.values import values


def plain(value, **limits):
    return converted(value, **limits)[0]


def converted(value, max_depth=32, max_items=1_000, max_bytes=100_000):
    return values.convert(value, values.Limits(max_depth, max_items, max_bytes))


DAY = pd.Timestamp("2024-01-02 03:04:05.000000006")
CASES = [
    (np.int8(5), 5),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.float32(1.5), 1.5),
    (np.float64("nan"), "NaN"),
    (np.longdouble(1.5), 1.5),
    (np.float16("inf"), "Infinity"),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.bytes_(b"abc"), "YWJj"),
    (np.complex64(1 + 2j), "(1+2j)"),
    (np.datetime64("2024-01-02T03:04"), "2024-01-02T03:04"),
    (np.datetime64("NaT"), None),
    (np.timedelta64(90, "s"), 90.0),
    (np.timedelta64("NaT"), None),
    (np.timedelta64(2, "M"), "2 months"),
    (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
    (np.array(5), 5),
    (np.array([]), []),
    (np.empty((2, 0)), [[], []]),
    (np.array([1.5, np.nan]), [1.5, "NaN"]),
    (np.array(["2024-01-01", "NaT"], "M8[D]"), ["2024-01-01", None]),
    (np.array([1, None, [2]], dtype=object), [1, None, [2]]),
    (np.array([(1, 2.5)], [("x", int), ("y", float)]), [{"x": 1, "y": 2.5}]),
    (np.ma.array([1, 2], mask=[0, 1]), [1, None]),
    (np.matrix([[1, 2]]), [[1, 2]]),
    (np.array([b"abc"], "V3"), ["YWJj"]),
    (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), [{"a": 1, "a (2)": 2}]),
    (pd.DataFrame({("a", 1): [1]}), [{"('a', 1)": 1}]),
    (pd.DataFrame(), []),
    (pd.Series([1, 2], index=["x", "y"]), [1, 2]),
    (pd.Series([1.5, np.nan]), [1.5, "NaN"]),
    (pd.Series([1, None], dtype="Int64"), [1, None]),
    (pd.Series([DAY, None]), ["2024-01-02T03:04:05.000000006", None]),
    (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    (pd.Index([1, 2]), [1, 2]),
    (pd.RangeIndex(2), [0, 1]),
    (pd.MultiIndex.from_tuples([(1, "a")]), [[1, "a"]]),
    (pd.date_range("2024-01-01", periods=1), ["2024-01-01T00:00:00"]),
    (pd.Categorical(["b", "a"]), ["b", "a"]),
    (DAY, "2024-01-02T03:04:05.000000006"),
    (pd.Timestamp("2024-01-01", tz="UTC"), "2024-01-01T00:00:00+00:00"),
    (pd.Timedelta("90s"), 90.0),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Period("2024-01"), "2024-01"),
    (pd.Interval(0, 1), "(0, 1]"),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[type(c[0]).__name__ for c in CASES])
def test_each_kind(value, expected):
    found, truncated = converted(value)
    assert found == expected
    assert type(found) is type(expected)
    assert not truncated
    json.loads(door_module.encode(found))


def test_large_ones_are_cut():
    assert converted(np.zeros(10**7), max_items=2) == ([0.0, 0.0], True)
    assert converted(np.zeros((10**3, 10**3)), max_items=1) == ([[0.0]], True)
    assert converted(pd.Series(range(10**6)), max_items=1) == ([0], True)
    assert converted(pd.DataFrame({"a": range(10**6)}), max_items=1) == ([{"a": 0}], True)
    found, truncated = converted(np.zeros((100, 1000)), max_bytes=1_000)
    assert truncated
    assert len(door_module.encode(found)) < 1_500


def test_groupby_and_the_like_are_shown():
    frame = pd.DataFrame({"a": [1]})
    assert "GroupBy object" in plain(frame.groupby("a"))
    assert plain(frame.dtypes["a"]) == "dtype('int64')"


class Frame(pd.DataFrame):
    def head(self, *args):
        raise ValueError

    iloc = columns = to_dict = itertuples = head


class Array(np.ndarray):
    def tolist(self):
        raise ValueError

    __iter__ = __len__ = __getitem__ = item = tolist


def test_overridden_methods_do_not_run():
    assert plain(Frame({"a": [1]})) == [{"a": 1}]
    assert plain(np.array([1, 2]).view(Array)) == [1, 2]


def test_pretenders_are_unreadable():
    for module, name in [("pandas", "DataFrame"), ("numpy", "ndarray"), ("pandas", "Timestamp")]:
        fake = type(name, (), {"__module__": module})
        assert name in plain([fake()])[0]


def test_objects_inside_frames_are_values_too():
    class Broken:
        def __repr__(self):
            raise ValueError

    frame = pd.DataFrame({"a": [[1], {"b": (1,)}, Broken()]})
    assert plain(frame) == [
        {"a": [1]},
        {"a": {"b": [1]}},
        {"a": "<unreadable Broken object>"},
    ]
