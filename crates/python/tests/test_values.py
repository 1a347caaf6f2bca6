"""Typed values in both directions."""

import datetime as dt
import decimal
import fractions
import gc
import pathlib
import uuid
import zoneinfo

import numpy as np
import pandas as pd
import pytest

import belljar
from belljar._plain import plain

PLAIN = [
    None,
    True,
    0,
    -(2**63),
    2**200,
    -(2**200),
    1.5,
    float("inf"),
    complex(1, -2),
    "text \U0001f600",
    b"\x00\xff",
    [1, [2, "x"]],
    (1, (2,), ()),
    {1, 2, 3},
    frozenset({"a"}),
    {},
    {1: "a", None: "b", (1, 2): "c", "$": "d"},
    {"a": {"b": [None]}},
    decimal.Decimal("1.10"),
    fractions.Fraction(-1, 3),
    dt.date(2024, 2, 29),
    dt.time(1, 2, 3, 4),
    dt.datetime(2024, 10, 27, 2, 30, 0, 1),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=dt.timezone(-dt.timedelta(hours=3, minutes=30))),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
    dt.timedelta(days=-1, microseconds=3),
    uuid.UUID(int=5),
    pathlib.PurePosixPath("/tmp/a"),
]

ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(10)[::-2],
    np.array([], dtype="f4"),
    np.zeros((0, 3)),
    np.array(5),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"x"]),
    np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
    np.array([1, 2], dtype="m8[s]"),
    np.array([1, 2], dtype=">i4"),
    np.array([1 + 2j], dtype="c8"),
    np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
    np.array([1, "x", None], dtype=object),
    np.linspace(0, 1, 10_000),
]

SCALARS = [
    np.float32(0.5),
    np.float64(0.25),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.datetime64("2024-01-01T00:00:01", "s"),
    np.timedelta64(5, "ms"),
    np.str_("x"),
]

FRAMES = [
    pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, np.nan]}),
    pd.DataFrame({"t": pd.to_datetime(["2024-01-01", None]), "i": pd.array([1, None], "Int64")}),
    pd.DataFrame({"c": pd.Categorical(["x", "y", "x"], ordered=True)}, index=["p", "q", "r"]),
    pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
    pd.DataFrame({"z": pd.to_datetime(["2024-07-01"]).tz_localize("Europe/Berlin")}),
    pd.DataFrame({"p": pd.period_range("2024-01", periods=2, freq="M")}),
    pd.DataFrame({"b": pd.array([True, None], "boolean"), "o": [(1, 2), {"k": 1}]}),
    pd.DataFrame(),
    pd.DataFrame({"s": pd.array(["a", None], dtype="string")}),
]


# Before version 3, pandas has other types for text and times than the sandbox.
same_pandas = pytest.mark.skipif(
    int(pd.__version__.partition(".")[0]) < 3, reason="this pandas is older than the sandbox's"
)


def there_and_back(session, value):
    session.set("value", value)
    found = session.get("value")
    again = session.run("pass", result="value").result
    assert repr(again) == repr(found)
    return found


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_python_s_own(data_session, value):
    found = there_and_back(data_session, value)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, dt.datetime):
        assert found.utcoffset() == value.utcoffset()
        assert found.fold == value.fold


def test_nan_and_subclasses(data_session):
    import collections
    import enum

    assert str(there_and_back(data_session, float("nan"))) == "nan"
    Point = collections.namedtuple("Point", "x y")
    Kind = enum.IntEnum("Kind", "A B")  # noqa: N806
    given = collections.OrderedDict(a=Point(1, 2), b=Kind.B, c=bytearray(b"x"), d=memoryview(b"y"))
    assert there_and_back(data_session, given) == {"a": (1, 2), "b": 2, "c": b"x", "d": b"y"}


@pytest.mark.parametrize("value", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays(data_session, value):
    found = there_and_back(data_session, value)
    np.testing.assert_array_equal(found, value)
    assert found.dtype == value.dtype.newbyteorder("<")
    assert found.shape == value.shape
    if value.size > 1 and value.ndim > 1:
        assert found.flags.f_contiguous == value.flags.f_contiguous


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: str(value.dtype))
def test_numpy_scalars(data_session, value):
    found = there_and_back(data_session, value)
    assert found == value
    assert type(found) is type(value)
    assert found.dtype == value.dtype


@same_pandas
@pytest.mark.parametrize("value", FRAMES, ids=range(len(FRAMES)))
def test_frames(data_session, value):
    found = there_and_back(data_session, value)
    pd.testing.assert_frame_equal(found, value, check_freq=False)


def test_series_indexes_and_what_is_missing(data_session):
    series = pd.Series([1.5, 2.5], index=pd.Index([10, 20], name="at"), name="prices")
    pd.testing.assert_series_equal(there_and_back(data_session, series), series)
    for index in (pd.RangeIndex(2, 8, 2), pd.Index(["a", "b"]), series.index):
        pd.testing.assert_index_equal(there_and_back(data_session, index), index)
    categorical = pd.Categorical(["a", None])
    assert there_and_back(data_session, categorical).equals(categorical)
    assert there_and_back(data_session, pd.NaT) is pd.NaT
    assert there_and_back(data_session, pd.NA) is pd.NA
    moment = pd.Timestamp("2024-07-01 12:00", tz="Europe/Berlin")
    assert there_and_back(data_session, moment) == moment
    delta = pd.Timedelta(5, "ms")
    assert there_and_back(data_session, delta) == delta


def test_arrays_are_looked_at_in_place_and_can_be_changed(data_session):
    run = data_session.run("array = np.arange(100_000)", result="array")
    array = run.result
    owner = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    assert type(owner).__name__ == "Buffer"
    array[0] = 7
    del run, owner
    gc.collect()
    assert array[0] == 7
    assert array[-1] == 99_999
    assert array.flags.aligned


def test_what_has_no_typed_form(runtime, data_session):
    run = runtime.run("class Point: pass\nresult = [1, Point]", image="core")
    assert isinstance(run.result[1], belljar.Opaque)
    assert run.result[1].class_ == "builtins.type"
    assert "Point" in run.result[1].repr
    assert run.outcome.to_dict()["result"] == [1, run.result[1].repr]
    run = runtime.run("result = []\nresult.append(result)", image="core")
    assert run.result[0].reason == "circular"
    loop = []
    loop.append(loop)
    for wrong in (object(), loop, {1: object()}, np.ma.array([1]), pd.Period("2024"), "\ud800"):
        with pytest.raises((TypeError, ValueError)):
            data_session.set("x", wrong)
    deep = []
    for _ in range(35):
        deep = [deep]
    with pytest.raises((TypeError, ValueError), match="deep"):
        data_session.set("x", deep)


def test_plain_results(runtime):
    code = "result = {1: (2, 3)}"
    run = runtime.run(code, image="core", typed=False)
    assert run.result == {"1": [2, 3]}
    assert run.outcome.to_dict()["result"] == {"1": [2, 3]}


@same_pandas
def test_the_document_has_what_the_sandbox_itself_makes_of_a_result(runtime):
    """Typed results look the same as plain ones in `to_dict`."""
    code = """
import datetime as dt, decimal, fractions, pathlib, uuid
import numpy as np, pandas as pd
result = {
    1: 2**70, 2: float("nan"), 3: -float("inf"), 4: complex(1, 2), 5: b"x", 6: (1, 2),
    7: {3, "a", 1}, 8: decimal.Decimal("1.10"), 9: fractions.Fraction(1, 3),
    10: dt.datetime(2024, 1, 2, 3, 4, 5), 11: dt.date(2024, 1, 2), 12: dt.time(1, 2),
    13: dt.timedelta(seconds=1.5), 14: uuid.UUID(int=1), 15: pathlib.Path("/a"),
    16: np.arange(4).reshape(2, 2), 17: np.float32(0.5),
    18: np.array(["2024-01-01", "NaT"], "M8[D]"), 19: np.timedelta64(1500, "ms"),
    20: pd.DataFrame({"a": [1.5, np.nan], 2: ["x", None]}),
    21: pd.Series([1, 2]), 22: pd.Timestamp("2024-01-01"), 23: pd.Timedelta(1500, "ms"),
    24: pd.NaT, 25: pd.NA, 26: pd.Index(["a"]),
    27: np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    28: 2**64 - 1, 29: {None: 1, True: 2, "true": 3, 1.5: 4, (1,): 5},
    30: pd.Series(["2024-01-01", None], dtype="M8[ns]"), 31: np.array([1.5, np.inf]),
    32: pd.Series([1, None], dtype="Int64"), 33: pd.Categorical(["a", None]),
    34: frozenset([(1, 2)]),
    35: np.array(3), 36: {"nested": [{"deep": (1,)}]},
}
"""
    typed = runtime.run(code, image="data", timeout=30)
    expected = runtime.run(code, image="data", timeout=30, typed=False).result
    assert typed.error is None
    found = typed.outcome.to_dict()["result"]
    for key, value in expected.items():
        assert found[key] == value, key
    assert list(found) == list(expected)


def test_guests_that_lie_do_not_raise(runtime):
    collide = "result = {k * (2**61 - 1): 0 for k in range(100)}"
    run = runtime.run(collide, image="core")
    assert run.success
    assert isinstance(run.result, belljar.Opaque)
    assert "hash" in run.result.reason
    zone = """
import datetime as dt
class Zone(dt.tzinfo):
    key = "../../../etc/passwd"
    def utcoffset(self, moment): return dt.timedelta(hours=1)
    def __str__(self): return "dateutil//etc/passwd"
result = dt.datetime(2024, 1, 1, tzinfo=Zone())
"""
    run = runtime.run(zone, image="core")
    assert run.success
    if not isinstance(run.result, belljar.Opaque):
        assert run.result.utcoffset() == dt.timedelta(hours=1)


def test_decoding_takes_no_names_that_open_files():
    from belljar._values import _zone, decode

    for name in ("../../etc/passwd", "/etc/passwd", "dateutil//etc/passwd", "a\x00b", ""):
        assert _zone(name, "otherwise") == "otherwise"
    column = {"dtype": "datetime64[ns, dateutil//etc/passwd]", "values": np.array([0])}
    series = {"$": "series", "index": pd.RangeIndex(1), "name": None, "values": column}
    with pytest.raises(ValueError, match="time zone"):
        decode(series)


def test_libraries_that_are_not_here(monkeypatch, runtime):
    import sys

    run = runtime.run("import numpy\nresult = numpy.arange(3)", image="data")
    assert run.result.tolist() == [0, 1, 2]
    monkeypatch.setitem(sys.modules, "numpy", None)
    run = runtime.run("import numpy\nresult = numpy.arange(3, dtype='<i2')", image="data")
    assert isinstance(run.result, belljar.Tagged)
    assert run.result.tag == "array"
    assert run.result.parts["data"].tobytes() == b"\0\0\1\0\2\0"
    code = """import numpy as np
result = [np.float64(0.5), np.float32(2), np.int8(-3), np.bool_(True), np.str_("x"),
          np.bytes_(b"y"),
          np.complex64(1j), np.float64("nan"), np.datetime64("2020-01-01")]"""
    *plain, day = runtime.run(code, image="data").result
    assert repr(plain) == "[0.5, 2.0, -3, True, 'x', b'y', 1j, nan]"
    assert day.tag == "scalar"


def test_plain_of_a_frame_with_names_that_are_the_same():
    frame = pd.DataFrame([[1, 2]], columns=[1, "1"])
    assert plain(frame) == [{"1": 1, "1 (2)": 2}]
