"""Which pandas objects are not printed again: only those that would look the same."""

import numpy as np
import pandas as pd
import pytest

from _belljar.values import frames, unchanged

ORDER = {"capture": True, "max_repr_chars": 10_000, "table_rows": None}


def table(rows=1_000):
    return pd.DataFrame(
        {
            "key": np.arange(rows) % 7,
            "value": np.arange(rows) / 3,
            "name": np.array(["tea", "coffee"])[np.arange(rows) % 2],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), "h"),
            "kind": pd.Categorical(np.array(["a", "b"])[np.arange(rows) % 2]),
        }
    )


@pytest.fixture
def told(door, monkeypatch):
    """Harvests a session's run, and compares with a harvest without memory."""
    printed = []
    described = frames._described
    monkeypatch.setattr(frames, "_TOLD", {})

    def counting(name, value, options):
        printed.append(name)
        return described(name, value, options)

    def harvest(namespace, **order):
        door.frames.clear()
        order = {**ORDER, **order}
        monkeypatch.setattr(frames, "_described", described)
        frames.harvest(namespace, order, lambda _: False)
        fresh = door.of("d")
        door.frames.clear()
        # The harvest without memory clears what is remembered.
        frames._TOLD.update(kept)
        printed.clear()
        monkeypatch.setattr(frames, "_described", counting)
        frames.harvest(namespace, order, lambda _: False, True)
        kept.clear()
        kept.update(frames._TOLD)
        assert door.of("d") == fresh
        assert door.of("w") == []
        return list(printed)

    kept = {}
    return harvest


@pytest.mark.parametrize("rows", [0, 1, 20, 60, 61, 1_000])
@pytest.mark.parametrize("tables", [None, 3])
def test_what_stayed_as_it_was_is_printed_once(told, rows, tables):
    frame = table(rows)
    namespace = {"frame": frame, "series": frame["value"], "names": frame["name"]}
    assert told(namespace, table_rows=tables) == ["frame", "series", "names"]
    assert told(namespace, table_rows=tables) == []
    namespace["other"] = frame.copy()
    assert told(namespace, table_rows=tables) == ["other"]
    del namespace["frame"]
    assert told(namespace, table_rows=tables) == []


def _alias(namespace):
    namespace["alias"] = namespace["frame"]
    namespace["alias"].iloc[0, 1] = 99.5


def _array(namespace):
    block = next(b for b in namespace["frame"]._mgr.blocks if b.dtype.kind == "f")
    block.values.flags.writeable = True
    block.values[0, -1] = -7


def _string(namespace):
    strings = namespace["frame"]._mgr.blocks[2].values
    assert strings.dtype == "str"
    strings._ndarray[-2] = "water"


def _label(namespace):
    labels = namespace["frame"].columns._values
    labels._ndarray[1] = "price"


def _row_label(namespace):
    labels = namespace["frame"].index._values
    labels.flags.writeable = True
    labels[-1] = 7


def _categories(namespace):
    namespace["frame"]["kind"] = namespace["frame"]["kind"].cat.rename_categories(["c", "d"])


def _method(namespace):
    object.__setattr__(namespace["frame"], "to_string", lambda **_: "mine")


def _others():
    """Objects with more labels and categories than rows that are printed, and with times."""
    days = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-03"])
    kinds = pd.Categorical.from_codes([25] * 100, [f"k{number}" for number in range(80)])
    return {
        "wide": pd.DataFrame(np.zeros((2, 80)), columns=[f"c{number}" for number in range(80)]),
        "kinds": pd.Series(kinds),
        "days": pd.Series(range(3), index=days),
        "spans": pd.Series(range(3), index=days - days[0]),
    }


def _column(name):
    def change(namespace):
        namespace["wide"] = namespace["wide"].rename(columns={name: "XX"})
        return "wide"

    return change


def _category(namespace):
    namespace["kinds"] = namespace["kinds"].cat.rename_categories({"k25": "XX"})
    return "kinds"


def _frequency(name):
    def change(namespace):
        namespace[name].index.freq = "D"
        return name

    return change


# By what changes, in the object whose name they return, or in `frame`.
CHANGES = {
    "a cell, by another name": _alias,
    "a cell, in the array below": _array,
    "a string, in the array below": _string,
    "the last row": lambda ns: ns["frame"].__setitem__("key", ns["frame"]["key"] + 1),
    "a type": lambda ns: ns["frame"].__setitem__("key", ns["frame"]["key"].astype("int32")),
    "a label": lambda ns: ns.update(frame=ns["frame"].rename(columns={"key": "Key"})),
    "the index": lambda ns: ns.update(frame=ns["frame"].set_index("when")),
    "the name of the index": lambda ns: ns["frame"].index.set_names("row", inplace=True),
    "a row more": lambda ns: ns.update(frame=pd.concat([ns["frame"], ns["frame"].iloc[:1]])),
    "the categories": _categories,
    "a missing value": lambda ns: ns["frame"].__setitem__("when", pd.NaT),
    "a minus before zero": lambda ns: ns["frame"].__setitem__("value", -0.0),
    "a method of its own": _method,
    "a label, in the array below": _label,
    "the order": lambda ns: ns.update(frame=ns["frame"].iloc[::-1]),
    "a label of 80, near the first": _column("c6"),
    "a label of 80, in the middle": _column("c40"),
    "a category of 80": _category,
    "the frequency of times, in place": _frequency("days"),
    "the frequency of time spans, in place": _frequency("spans"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("rows", [20, 1_000])
def test_what_changed_is_printed_again(told, change, rows):
    namespace = {"frame": table(rows), "series": pd.Series([1, 2]), **_others()}
    with pd.option_context("display.max_columns", None):
        told(namespace)
        assert told(namespace) == []
        name = change(namespace) or "frame"
        assert name in told(namespace)
        assert "series" not in told(namespace)


def test_labels_of_rows_are_read_where_they_are_held(told):
    for rows in (20, 1_000):
        namespace = {"frame": table(rows).set_index("key")}
        told(namespace)
        _row_label(namespace)
        assert told(namespace) == ["frame"]


def test_what_is_certain_is_not_read_again(told, monkeypatch):
    namespace = {"frame": table(), "series": table()["name"], "kind": table()["kind"]}
    namespace["frame"] = namespace["frame"].drop(columns="kind")
    told(namespace)
    reads, read = [], unchanged._Look.read

    def counting(look, value):
        reads.append(value)
        read(look, value)

    monkeypatch.setattr(unchanged._Look, "read", counting)
    assert told(namespace) == []
    # Categories take more than comparing bytes.
    assert [one is namespace["kind"] for one in reads] == [True]
    reads.clear()
    # Equal strings elsewhere in memory are compared once.
    array = namespace["series"].array._ndarray
    array[0] = "".join(list(array[0]))
    assert told(namespace) == []
    assert told(namespace) == []
    assert [one is namespace["kind"] for one in reads] == [False, True, True]


def test_unchanged_ones_are_told_in_one_frame(told, door):
    namespace = {f"frame_{number}": table(number) for number in range(10)}
    told(namespace)
    door.calls = 0
    assert told(namespace) == []
    # Those without memory are told one by one.
    assert door.calls == 10 + 1
    namespace["frame_4"] = table(3)
    door.calls = 0
    assert told(namespace) == ["frame_4"]
    assert door.calls == 10 + 3


def test_a_host_that_takes_no_more_gets_as_many_as_fit(door, monkeypatch):
    monkeypatch.setattr(frames, "_TOLD", {})
    namespace = {f"frame_{number}": table() for number in range(3)}
    for most in (1 << 30, 2_000):
        door.most = most
        door.frames.clear()
        frames.harvest(namespace, ORDER, lambda _: False, True)
        assert [one["name"] for one in door.of("d")] == list(namespace)


def test_a_frame_that_the_host_refuses_costs_only_itself(door, monkeypatch):
    monkeypatch.setattr(frames, "_TOLD", {})
    namespace = {"first": table(3), "large": table(), "last": table(3)}
    frames.harvest(namespace, ORDER, lambda _: False, True)
    # With the byte that precedes it, the large one is just too long.
    door.most = max(len(frame) for _, frame in frames._TOLD.values())
    door.frames.clear()
    frames.harvest(namespace, ORDER, lambda _: False, True)
    assert [one["name"] for one in door.of("d")] == ["first", "last"]
    assert [one["message"] for one in door.of("w")] == [
        "The pandas object `large` cannot be shown: RuntimeError: the host refuses"
    ]


def test_printing_one_may_change_the_next(door, monkeypatch):
    monkeypatch.setattr(frames, "_TOLD", {})
    frame, number = table(), 0

    class Writer:
        def __repr__(self):
            frame.iloc[0, 0] = number
            return "written"

    namespace = {"first": table(), "writer": pd.DataFrame({"a": [Writer()]}), "frame": frame}
    for number in (500, 600):
        door.frames.clear()
        frames.harvest(namespace, ORDER, lambda _: False, True)
        assert [one["name"] for one in door.of("d")] == list(namespace)
        assert f" {number} " in door.of("d")[2]["repr"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.0, "a"], [-0.0, "a"]),
        ([0.0, None], [-0.0, None]),
        ([1, "a"], [1.0, "a"]),
        ([True, "a"], [1, "a"]),
        (["a", None], ["a", float("nan")]),
    ],
)
def test_equal_cells_may_look_different(told, before, after):
    frame = pd.DataFrame({"a": pd.Series(before, dtype=object)})
    told({"frame": frame})
    assert told({"frame": frame}) == []
    frame = pd.DataFrame({"a": pd.Series(after, dtype=object)})
    assert told({"frame": frame}) == ["frame"]


def test_a_change_that_nobody_sees_is_not_looked_for(told):
    frame = table(1_000)
    told({"frame": frame})
    frame.iloc[500, 1] = 0.25
    assert told({"frame": frame}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("display.max_rows", 4),
        ("display.min_rows", 4),
        ("display.precision", 2),
        ("display.width", 20),
        ("display.max_columns", 2),
        ("display.float_format", "{:.1f}".format),
        ("display.large_repr", "info"),
        ("display.show_dimensions", True),
    ],
)
def test_options_are_honoured(told, name, value):
    namespace = {"frame": table(), "series": table()["value"]}
    told(namespace)
    with pd.option_context(name, value):
        assert told(namespace) == ["frame", "series"]
    told(namespace)
    assert told(namespace, max_repr_chars=20) == ["frame", "series"]
    assert told(namespace, max_repr_chars=20, table_rows=2) == ["frame", "series"]


def test_the_terminal_is_looked_at(told, monkeypatch):
    namespace = {"frame": table()}
    with pd.option_context("display.width", None):
        told(namespace)
        monkeypatch.setenv("COLUMNS", "20")
        assert told(namespace) == ["frame"]


class _Frame(pd.DataFrame):
    __module__ = "pandas"


class _Cell:
    def __init__(self):
        self.text = "one"

    def __repr__(self):
        return self.text


@pytest.mark.parametrize(
    "value",
    [
        _Frame({"a": [1]}),
        pd.DataFrame({"a": [_Cell()]}),
        pd.DataFrame({"a": [[1, 2]]}),
        pd.DataFrame({"a": [1]}, index=[_Cell()]),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
        pd.DataFrame(np.zeros((2, 300))),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pd.Series([1], name=("a", "b")),
        pd.Series(range(3), index=pd.date_range("2024-01-01", periods=3)),
        pd.Timestamp("2024-01-01"),
        pd.Index([1, 2]),
        pd.DataFrame({"a": [1]}).groupby("a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_told_is_printed_every_time(told, value):
    assert told({"value": value}) == ["value"]
    assert told({"value": value}) == ["value"]


def test_an_object_in_a_cell_may_change_its_mind(told):
    cell = _Cell()
    namespace = {"frame": pd.DataFrame({"a": [cell, None]})}
    told(namespace)
    cell.text = "two"
    assert told(namespace) == ["frame"]


def test_a_zone_is_part_of_the_type(told):
    when = pd.date_range("2024-01-01", periods=2, tz="UTC")
    namespace = {"frame": pd.DataFrame({"a": when})}
    told(namespace)
    assert told(namespace) == []
    namespace["frame"] = pd.DataFrame({"a": when.tz_convert("Asia/Tokyo")})
    assert told(namespace) == ["frame"]


def test_a_run_of_its_own_remembers_nothing(door):
    frames.harvest({"frame": table()}, ORDER, lambda _: False)
    assert frames._TOLD == {}


def test_what_is_kept_is_bounded():
    settings = unchanged.settings(ORDER)
    wide = pd.DataFrame(np.zeros((60, 99)))
    assert unchanged.looks(wide, settings) is not None
    assert unchanged.looks(pd.DataFrame(np.zeros((100, 101))), settings) is None
