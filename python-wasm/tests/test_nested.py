"""Lists, maps and structs in Parquet and Feather files of pyarrow."""

import datetime
import io
import random

import numpy as np
import pandas as pd
import pytest

from _belljar.formats import arrow_read, parquet_read

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

MOMENT, DAY = datetime.datetime(2020, 1, 2, 3), datetime.date(2020, 1, 2)
ROWS = 200


def _columns():
    yield "list", [[1, 2], None, [], [3, None]]
    yield "whole", [[1, 2], [4], [], [3]]
    yield "flags", [[True, None], [True], [], None]
    yield "texts", [["a", None], None, [], ["é"]]
    yield "times", [[MOMENT, None], [], None, [MOMENT]]
    yield "struct", [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 5, "b": "é"}]
    yield "inner", [{"a": [1, None], "c": {"d": 1.5}}, {"a": None, "c": None}, None, {"a": []}]
    yield "lists", [[[1], None, []], [], None, [[2, 3], [4]]]
    yield "deep", [[[[1], [2, 3]], []], None, [[None], [[None]]], []]
    yield "structs", [[{"a": 1, "b": ["x"]}, None], [], None, [{"a": None, "b": None}]]
    yield "kinds", [{"f": 1.5, "t": MOMENT, "d": DAY, "n": None}, None, {"f": float("nan")}, {}]
    numbers = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    yield "map", [[("k", 1), ("l", None)], None, [], [("z", 3)]], numbers
    longer = pyarrow.map_(pyarrow.string(), pyarrow.list_(pyarrow.int64()))
    yield "maps", [[("k", [1, 2])], None, [], [("z", None)]], longer
    yield "large", [["a"], [], None, ["b", None]], pyarrow.large_list(pyarrow.string())
    yield "fixed", [[1, 2], [3, 4], [5, 6], [7, 8]], pyarrow.list_(pyarrow.int8(), 2)


COLUMNS = {name: pyarrow.array(v * (ROWS // 4), *kind) for name, v, *kind in _columns()}


def _same(found, expected):
    if isinstance(found, np.ndarray):
        assert isinstance(expected, np.ndarray)
        assert found.dtype == expected.dtype
        found, expected = found.tolist(), expected.tolist()
    assert type(found) is type(expected) or not isinstance(found, (list, dict, tuple))
    if isinstance(found, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(found, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _same(one, other)
    else:
        assert found == expected or (found != found and expected != expected)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"row_group_size": 30},
        {"data_page_version": "2.0", "data_page_size": 20, "use_dictionary": False},
        {"use_compliant_nested_type": False, "compression": "zstd"},
    ],
)
@pytest.mark.parametrize("name", COLUMNS)
def test_nested_columns_of_parquet_are_read(name, settings):
    for rows in (ROWS, 0):
        file, table = io.BytesIO(), pyarrow.table({"x": COLUMNS[name], "y": range(ROWS)})
        parquet.write_table(table.slice(0, rows), file, **settings)
        found = parquet_read.read(file)
        _same(found["x"].tolist(), parquet.read_table(file).to_pandas()["x"].tolist())
        assert found["y"].tolist() == list(range(rows))


@pytest.mark.parametrize("settings", [{}, {"chunksize": 32, "compression": "zstd"}])
@pytest.mark.parametrize("name", COLUMNS)
def test_nested_columns_of_feather_are_read(name, settings):
    table = pyarrow.table({"w": range(ROWS), "x": COLUMNS[name], "y": range(ROWS)})
    for part in (table, table.slice(3, 101), table.slice(0, 0)):
        file = io.BytesIO()
        feather.write_feather(part, file, **settings)
        found = arrow_read.read(file)
        _same(found["x"].tolist(), feather.read_table(file).to_pandas()["x"].tolist())
        assert found["y"].tolist() == part["y"].to_pylist()


def test_structs_hold_times_in_nanoseconds_and_whole_numbers():
    """pyarrow makes numbers of the former, and floats of the latter where one is missing."""
    kind = pyarrow.struct([("t", pyarrow.timestamp("ns")), ("n", pyarrow.int64())])
    table = pyarrow.table({"x": pyarrow.array([{"t": 1, "n": 2**60 + 1}, {}], kind)})
    file = io.BytesIO()
    parquet.write_table(table, file)
    found = parquet_read.read(file)["x"].tolist()
    assert found == [{"t": pd.Timestamp(1), "n": 2**60 + 1}, {"t": None, "n": None}]


@pytest.mark.parametrize("name", ["structs", "maps", "deep"])
def test_broken_nested_files_are_refused_or_read(name):
    rng = random.Random(5)
    table = pyarrow.table({"x": COLUMNS[name][:8]})
    for read, write in (
        (parquet_read.read, parquet.write_table),
        (arrow_read.read, feather.write_feather),
    ):
        file = io.BytesIO()
        write(table, file, compression="none" if write is parquet.write_table else "uncompressed")
        data = file.getvalue()
        for _ in range(1500):
            copy = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                copy[rng.randrange(len(copy))] = rng.choice((0, 1, 2, 127, 128, 255))
            try:
                read(io.BytesIO(copy))
            except (ValueError, MemoryError, OverflowError):
                pass
