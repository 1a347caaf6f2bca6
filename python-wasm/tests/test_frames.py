"""The pandas objects that a run reports."""

import sys

import pandas as pd
import pytest

from _belljar.values import frames

OPTIONS = {"capture": True, "max_repr_chars": 1_000, "table_rows": None}


def harvest(door, namespace, **options):
    frames.harvest(namespace, {**OPTIONS, **options}, lambda name: name == "left_out")
    return door.of("d")


def test_every_pandas_object_in_namespace_order(door):
    frame = pd.DataFrame({"a": [1, 2]})
    namespace = {
        "x": 1,
        "frame": frame,
        "series": frame["a"],
        "index": frame.index,
        "groups": frame.groupby("a"),
        "when": pd.Timestamp("2024-01-01"),
        "pd": pd,
        "cls": pd.DataFrame,
        "function": pd.read_csv,
        "__hidden__": frame,
        "left_out": frame,
        5: frame,
    }
    found = harvest(door, namespace)
    assert [one["name"] for one in found] == ["frame", "series", "index", "groups", "when"]
    assert found[0] == {"name": "frame", "repr": "   a\n0  1\n1  2", "truncated": False}
    assert door.of("w") == []


def test_display_options_are_honoured(door):
    frame = pd.DataFrame({"a": range(100)})
    with pd.option_context("display.max_rows", 4):
        (found,) = harvest(door, {"frame": frame})
    assert (
        found["repr"]
        == repr(frame.iloc[[0, 1, 98, 99]]).replace("98", "..  ..\n98", 1)
        + "\n\n[100 rows x 1 columns]"
    )


def test_a_long_repr_is_cut(door):
    (found,) = harvest(door, {"f": pd.DataFrame({"a": ["x" * 40] * 40})}, max_repr_chars=10)
    assert len(found["repr"]) == 10
    assert found["truncated"]


def pretender(**methods):
    return type("Frame", (), {"__module__": "pandas", **methods})()


def _raise(*_):
    raise ValueError("no")


def test_each_failure_costs_only_itself(door):
    namespace = {
        "raises": pretender(__repr__=_raise),
        "good": pd.Series([1]),
        "number": pretender(__repr__=lambda self: 5),
        "odd": type("Odd", (), {"__module__": type("S", (str,), {})("pandas.x")})(),
    }
    found = harvest(door, namespace)
    assert [one["name"] for one in found] == ["good", "odd"]
    assert [one["message"] for one in door.of("w")] == [
        "The pandas object `raises` cannot be shown: ValueError: no",
        "The pandas object `number` cannot be shown: "
        "TypeError: __repr__ returned non-string (type int)",
    ]


def test_lies_about_where_it_is_from(door):
    class Meta(type):
        __module__ = property(_raise)

    class Metaclassed(metaclass=Meta):
        pass

    class Classed:
        __class__ = pd.DataFrame

    namespace = {
        "a": Metaclassed(),
        "b": Classed(),
        "c": type("NoString", (), {"__module__": 5})(),
        "d": type("None", (), {"__module__": None})(),
    }
    assert harvest(door, namespace) == []


def test_a_namespace_that_changes_meanwhile(door):
    namespace = {}
    namespace["a"] = pretender(__repr__=lambda self: namespace.clear() or "gone")
    namespace["b"] = pd.Series([1])
    assert [one["name"] for one in harvest(door, namespace)] == ["a", "b"]


def test_tables(door):
    frame = pd.DataFrame(
        {"a": [1, 2, 3], "b": ["x", None, "z"], "c": pd.to_datetime(["2024-01-01"] * 3)},
        index=["p", "q", "r"],
    )
    (found,) = harvest(door, {"frame": frame}, table_rows=2)
    table = found["table"]
    assert table["columns"] == ["a", "b", "c"]
    assert table["dtypes"][0] == "int64"
    assert table["index"] == ["p", "q"]
    assert table["shape"] == [3, 3]
    assert table["rows"] == [[1, "x", "2024-01-01T00:00:00"], [2, None, "2024-01-01T00:00:00"]]
    assert table["truncated"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            pd.Series([1.5], name="s"),
            {
                "columns": ["s"],
                "dtypes": ["float64"],
                "index": [0],
                "shape": [1, 1],
                "rows": [[1.5]],
                "truncated": False,
            },
        ),
        (
            pd.DataFrame(),
            {
                "columns": [],
                "dtypes": [],
                "index": [],
                "shape": [0, 0],
                "rows": [],
                "truncated": False,
            },
        ),
        (pd.Index([1]), None),
    ],
)
def test_tables_of_other_shapes(value, expected):
    assert frames.table(value, 5) == expected


def test_a_wide_table_is_cut():
    table = frames.table(pd.DataFrame([range(1_000)]), 5)
    assert len(table["columns"]) == len(table["rows"][0]) == 200
    assert table["shape"] == [1, 1_000]
    assert table["truncated"]


def test_a_table_without_columns_has_its_rows():
    table = frames.table(pd.DataFrame(index=[1, 2]), 5)
    assert table["shape"] == [2, 0]
    assert table["rows"] == [[], []]


def test_a_run_reports_them(runs):
    done = runs("import pandas as pd\nframe = pd.DataFrame({'a': [1]})\n1/0")
    assert [one["name"] for one in done.of("d")] == ["frame"]
    order = {"capture": False, "max_repr_chars": 1, "table_rows": None}
    assert runs("import pandas as pd\nx = pd.NaT", frames=order).of("d") == []


def test_a_stand_in_is_shown_where_pandas_is_not_there(door, monkeypatch):
    monkeypatch.delitem(sys.modules, "pandas")
    found = harvest(door, {"frame": pretender(__repr__=lambda self: "a\n1")}, table_rows=5)
    assert found == [{"name": "frame", "repr": "a\n1", "truncated": False}]
