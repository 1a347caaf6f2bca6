"""Parquet files, compared with pyarrow in both directions if it is installed."""

import datetime
import decimal
import io
import random
import types

import numpy as np
import pandas as pd
import pandas.io.parquet
import pytest

from _belljar.formats import codecs, parquet, parquet_read, parquet_values, parquet_write

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

needs_pyarrow = pytest.mark.skipif(pyarrow is None, reason="pyarrow is not installed")
N = 300


def _frames():
    rng = np.random.default_rng(1)
    some = rng.random(N) < 0.3
    texts = [None if gone else f"é{k % 7}" for k, gone in enumerate(some)]
    yield (
        "integers",
        {t: rng.integers(0, 100, N).astype(t) for t in "i1 i2 i4 i8 u1 u2 u4 u8".split()},
    )
    yield "edges", {"i": np.array([2**63 - 1, -(2**63)]), "u": np.array([2**64 - 1, 0], "u8")}
    yield "floats", {"d": np.where(some, np.nan, 1.5), "f": rng.random(N).astype("f4")}
    yield "half", {"h": np.arange(N).astype("f2")}
    yield "texts", {"few": texts, "many": [f"text {k}" for k in range(N)], "all": ["x"] * N}
    yield "bytes", {"b": [bytes([k % 256, 0]) if k % 3 else None for k in range(N)]}
    yield "booleans", {"b": rng.random(N) < 0.5, "n": [True, None, False] * (N // 3)}
    dates = pd.date_range("2020", periods=N, freq="7h")
    moments = {u: dates.as_unit(u) for u in ("s", "ms", "us", "ns")}
    yield (
        "moments",
        {**moments, "zone": dates.tz_localize("Europe/Berlin", ambiguous=True, nonexistent="NaT")},
    )
    yield (
        "lacking",
        {"m": pd.Series(dates).where(~some), "date": [datetime.date(2020, 1, 2), None] * 150},
    )
    yield "times", {"t": [datetime.time(1, 2, 3, 4), None] * 150}
    yield (
        "decimals",
        {"d": [decimal.Decimal("-1.50"), None, decimal.Decimal("12345678901.25")] * 100},
    )
    yield (
        "categories",
        {
            "c": pd.Categorical(texts),
            "o": pd.Categorical(["b", "a"] * 150, categories=["z", "b", "a"], ordered=True),
            "i": pd.Categorical([3, 1, 3] * 100),
        },
    )
    yield (
        "nullable",
        {
            "i": pd.array([1, None, 2**60 + 1], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "f": pd.array([1.5, None, 2], dtype="Float32"),
            "s": pd.array(["a", None, "b"], dtype="string"),
        },
    )
    yield "nothing", {"none": [None] * N}
    yield "no rows", {"i": np.zeros(0, "i8"), "f": np.zeros(0)}


FRAMES = {name: pd.DataFrame(columns) for name, columns in _frames()}
FRAMES |= {
    "range": FRAMES["floats"].set_axis(pd.RangeIndex(3, 3 + 2 * N, 2, name="r")),
    "index": FRAMES["floats"].set_axis(pd.Index(np.arange(N) * 3)),
    "named": FRAMES["floats"].set_axis(pd.Index([f"k{n}" for n in range(N)], name="key")),
    "levels": FRAMES["floats"].set_axis(
        pd.MultiIndex.from_product([range(N // 2), ["a", "b"]], names=["x", None])
    ),
    "numbers": pd.DataFrame({1: [1, 2], 2: [3, 4]}),
    "columns": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])),
}


def _written(frame, compression="snappy", index=None, rows=None):
    file = io.BytesIO()
    parquet_write.Content(frame, compression, index, rows).write(file)
    file.seek(0)
    return file


def _same(found, expected):
    # pyarrow converts text to its own arrays.
    for column in expected.columns:
        if isinstance(expected[column].dtype, pd.StringDtype):
            is_new = expected[column].dtype.na_value is pd.NA
            expected = expected.astype({column: "string" if is_new else "str"})
    pd.testing.assert_frame_equal(found, expected, check_freq=False)
    assert list(found.columns) == list(expected.columns)


@pytest.mark.parametrize("compression", [None, "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("name", FRAMES)
def test_what_is_written_is_read_again(name, compression):
    frame = FRAMES[name]
    for rows in (None, 100):
        found = parquet_read.read(_written(frame, compression, rows=rows))
        if name == "moments":
            frame = frame.astype({"s": "M8[ms]"})
        pd.testing.assert_frame_equal(found, frame, check_freq=False)


@needs_pyarrow
@pytest.mark.parametrize("name", FRAMES)
def test_pyarrow_reads_what_is_written(name):
    frame = FRAMES[name]
    if name == "moments":
        frame = frame.astype({"s": "M8[ms]"})
    for compression in (None, "snappy", "gzip", "zstd", "lz4", "lz4_raw"):
        found = pd.read_parquet(_written(frame, compression, rows=128), engine="pyarrow")
        for column in frame.columns:
            # pyarrow needs its own schema to know the categories.
            if isinstance(frame[column].dtype, pd.CategoricalDtype):
                found[column] = found[column].astype(frame[column].dtype)
            elif isinstance(frame[column].dtype, pd.DatetimeTZDtype):
                found[column] = found[column].dt.as_unit(frame[column].dt.unit)
        pd.testing.assert_frame_equal(found, frame, check_freq=False)


_SETTINGS = [
    {},
    {"compression": "gzip", "data_page_version": "2.0"},
    {"compression": None, "use_dictionary": False},
    {"data_page_version": "2.0", "row_group_size": 70, "data_page_size": 100},
    {"row_group_size": 90, "data_page_size": 64, "dictionary_pagesize_limit": 50},
    {"use_deprecated_int96_timestamps": True},
    {"version": "1.0"},
    {"compression": "zstd"},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "lz4"},
]


@needs_pyarrow
@pytest.mark.parametrize("settings", _SETTINGS)
@pytest.mark.parametrize("name", FRAMES)
def test_what_pyarrow_writes_is_read(name, settings):
    file = io.BytesIO()
    FRAMES[name].to_parquet(file, engine="pyarrow", **settings)
    expected = pd.read_parquet(file, engine="pyarrow")
    if name == "categories":
        # pyarrow loses categories that are not text; this reader does not.
        expected["i"] = FRAMES[name]["i"].cat.reorder_categories([3, 1])
    _same(parquet_read.read(file), expected)


@needs_pyarrow
@pytest.mark.parametrize(
    ("name", "column", "encoding"),
    [
        ("integers", "i8", "DELTA_BINARY_PACKED"),
        ("integers", "u4", "DELTA_BINARY_PACKED"),
        ("edges", "i", "DELTA_BINARY_PACKED"),
        ("integers", "i8", "BYTE_STREAM_SPLIT"),
        ("floats", "d", "BYTE_STREAM_SPLIT"),
        ("half", "h", "BYTE_STREAM_SPLIT"),
        ("texts", "few", "DELTA_LENGTH_BYTE_ARRAY"),
        ("texts", "many", "DELTA_BYTE_ARRAY"),
        ("booleans", "n", "RLE"),
    ],
)
def test_encodings_that_pyarrow_can_be_asked_for_are_read(name, column, encoding):
    file, frame = io.BytesIO(), FRAMES[name][[column]]
    frame.to_parquet(
        file, engine="pyarrow", use_dictionary=False, column_encoding={column: encoding}
    )
    _same(parquet_read.read(file), pd.read_parquet(file, engine="pyarrow"))


def _column(rng, rows):
    """A random column of pyarrow's, and the encodings that it may have."""
    kind = rng.choice(("integer", "float", "boolean", "text", "bytes", "list"))
    few = rng.choice((1, 2, 9, 300, rows))
    if kind == "integer":
        width, encodings = rng.choice((8, 16, 32, 64)), ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
        top = (1 << rng.randrange(1, width)) - 1
        pool = [rng.randint(-top, top) for _ in range(few)]
        dtype = getattr(pyarrow, f"int{width}")()
        encodings = encodings if width > 16 else encodings[:1]
    elif kind == "float":
        pool, dtype = [rng.uniform(-9, 9) for _ in range(few)], pyarrow.float64()
        encodings = ["BYTE_STREAM_SPLIT"]
    elif kind == "boolean":
        pool, dtype, encodings = [True, False][: rng.randint(1, 2)], pyarrow.bool_(), ["RLE"]
    elif kind == "list":
        pool = [[rng.randrange(9) for _ in range(rng.randrange(4))] for _ in range(few)]
        dtype, encodings = pyarrow.list_(pyarrow.int64()), []
    else:
        letters = rng.choice(("ab", "a\0", "aé", "字🎉a"))
        longest = rng.choice((0, 1, 9, 40, 700))
        pool = ["".join(rng.choices(letters, k=rng.randint(0, longest))) for _ in range(few)]
        encodings = ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
        dtype = pyarrow.string() if kind == "text" else pyarrow.binary()
        pool = pool if kind == "text" else [value.encode() for value in pool]
    values = []
    while len(values) < rows:
        run = rng.choice((1, 1, 2, 9, 70, rows))
        values += [rng.choice(pool)] * run if rng.random() < 0.7 else rng.choices(pool, k=run)
    lacking = rng.choice((0, 0, 0.01, 0.5, 1))
    values = [None if rng.random() < lacking else value for value in values[:rows]]
    return pyarrow.array(values, dtype), ["PLAIN", *encodings] if encodings else []


@needs_pyarrow
@pytest.mark.parametrize("seed", range(100))
def test_random_tables_are_read_as_by_pyarrow(seed):
    rng = random.Random(seed)
    rows = rng.choice((1, 7, 100, 2500))
    columns, settings, dictionaries = {}, {}, []
    for name in "abcde"[: rng.randint(1, 5)]:
        columns[name], encodings = _column(rng, rows)
        if encodings and rng.random() < 0.6:
            settings[name] = rng.choice(encodings)
        else:
            dictionaries.append(name)
    file = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table(columns),
        file,
        compression=rng.choice(("none", "snappy", "gzip", "zstd", "lz4")),
        data_page_version=rng.choice(("1.0", "2.0")),
        data_page_size=rng.choice((1, 100, 2000, 1 << 20)),
        write_batch_size=rng.choice((1, 64, 1024)),
        dictionary_pagesize_limit=rng.choice((20, 500, 1 << 20)),
        row_group_size=rng.choice((rows, rows, rows // 3 + 1)),
        use_dictionary=dictionaries,
        column_encoding=settings or None,
    )
    expected = pyarrow.parquet.read_table(file).to_pandas()
    _same(parquet_read.read(file), expected)
    for _ in range(20):
        data = bytearray(file.getvalue())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            parquet_read.read(io.BytesIO(data))
        except (ValueError, MemoryError):
            pass


@needs_pyarrow
def test_long_runs_of_every_width_are_read():
    rng = np.random.default_rng(2)
    for width in range(1, 18):
        values = rng.integers(0, 1 << width, 3000)
        frame = pd.DataFrame({"a": np.repeat(values, rng.integers(1, 20, 3000)), "d": 0})
        frame["d"] = frame["a"].cumsum() * (1 << width)
        file = io.BytesIO()
        frame.to_parquet(
            file,
            engine="pyarrow",
            use_dictionary=["a"],
            column_encoding={"d": "DELTA_BINARY_PACKED"},
        )
        _same(parquet_read.read(file), frame)


@pytest.mark.parametrize("compression", [None, "snappy"])
def test_what_is_read_can_be_changed(compression):
    frame = pd.DataFrame({"i": [1, 2], "f": [0.5, 1], "b": [True, True], "s": ["a", "b"]})
    found = parquet_read.read(_written(frame, compression))
    for column in frame.columns:
        found.loc[0, column] = found.loc[1, column]
    assert found.loc[0].tolist() == [2, 1.0, True, "b"]


@needs_pyarrow
def test_columns_are_chosen():
    file = io.BytesIO()
    frame = FRAMES["named"].assign(nested=[[1]] * N)
    frame.to_parquet(file, engine="pyarrow")
    _same(parquet_read.read(file, ["f"]), frame[["f"]])
    _same(parquet_read.read(file, ["f", "d"]), frame[["f", "d"]])
    assert parquet_read.read(file, []).shape == (N, 0)
    assert parquet_read.read(file)["nested"].iloc[-1].tolist() == [1]
    with pytest.raises(ValueError, match="no column 'x'"):
        parquet_read.read(file, ["x"])


@needs_pyarrow
def test_a_codec_that_is_not_here_is_named():
    file = _written(FRAMES["floats"])
    data = file.getvalue()
    # The codec of a column: field 4, an integer.
    assert data.count(b"\x15\x02\x16\xd8\x04") == len(FRAMES["floats"].columns)
    broken = data.replace(b"\x15\x02\x16\xd8\x04", b"\x15\x06\x16\xd8\x04")
    with pytest.raises(ValueError, match="compressed with LZO"):
        parquet_read.read(io.BytesIO(broken))


@needs_pyarrow
def test_what_was_called_lz4_before_is_read():
    data = b"some text, and some more text. " * 40
    one = pyarrow.compress(data, "lz4_raw", asbytes=True)
    half = pyarrow.compress(data[:620], "lz4_raw", asbytes=True)
    head = len(data).to_bytes(4, "big") + len(one).to_bytes(4, "big")
    half = (620).to_bytes(4, "big") + len(half).to_bytes(4, "big") + half
    frame = pyarrow.compress(data, "lz4", asbytes=True)
    for packed in (one, head + one, half + half, frame):
        assert codecs.decompress_old_lz4(memoryview(packed), len(data)) == data
    for packed in (half, head + one[:-1], half + half[:-1], frame[:-9]):
        with pytest.raises(ValueError, match="broken"):
            codecs.decompress_old_lz4(packed, len(data))


def test_parts_that_are_too_large_are_refused():
    for size in (codecs.LIMIT + 1, 1 << 31):
        with pytest.raises(ValueError, match="67108864 are the most"):
            codecs.decompress(codecs.ZSTD, b"x", size)
    with pytest.raises(ValueError, match="67108864 are the most"):
        codecs.compress(codecs.ZSTD, bytes(codecs.LIMIT + 1))


@needs_pyarrow
def test_nothing_is_compressed_without_the_host(door):
    names = {codecs.SNAPPY: "snappy", codecs.LZ4: "lz4", codecs.ZSTD: "zstd"}
    door.refuses = True
    for codec, name in names.items():
        packed = codecs.compress(codec, b"")
        assert pyarrow.decompress(packed, 0, name, asbytes=True) == b""
        assert codecs.decompress(codec, packed, 0) == b""


@needs_pyarrow
def test_pages_of_long_texts_are_divided():
    frame = pd.DataFrame({"s": [f"{k}" * 600_000 for k in range(40)]})
    file = _written(frame, "zstd")
    found = pyarrow.parquet.read_table(file).to_pandas()
    _same(parquet_read.read(file), found)
    assert file.getvalue().count(b"\x15\x00\x15") >= 2


@needs_pyarrow
def test_types_that_can_lack_values_are_made_where_they_are_asked_for():
    file = io.BytesIO()
    FRAMES["texts"].join(FRAMES["integers"]).join(FRAMES["booleans"]).to_parquet(file)
    expected = pd.read_parquet(file, engine="pyarrow", dtype_backend="numpy_nullable")
    _same(parquet_read.read(file, nullable=True), expected)


def _broken(data):
    rng = random.Random(4)
    for at in range(len(data)):
        yield data[:at]
    for _ in range(4000):
        copy = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            copy[rng.randrange(len(copy))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        yield bytes(copy)


@pytest.mark.parametrize("compression", [None, "snappy", "gzip", "zstd", "lz4"])
def test_broken_files_are_refused_or_read(compression):
    frame = pd.DataFrame({"s": ["a", "b", None, "a"] * 3, "i": range(12), "f": [1.5, np.nan] * 6})
    frame["t"] = pd.Timestamp("2020-01-01", tz="UTC")
    for data in _broken(_written(frame, compression, index=True).getvalue()):
        try:
            parquet_read.read(io.BytesIO(data))
        except (ValueError, MemoryError):
            pass


def test_more_rows_than_there_are_bytes_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        parquet_values.plain(b"", parquet_values.INT64, 0, 1 << 40)
    for count in (9, 1 << 40):
        with pytest.raises(ValueError, match="fewer than it says"):
            parquet_values.hybrid(b"\x03\0", 1, count)
    with pytest.raises(ValueError, match="fewer than it says"):
        parquet_values.deltas(b"\x00\x00\x00\x00", 1)
    for data in (b"\2\0\0\0a", b"\xff" * 8, b"\1\0\0\0\xff"):
        with pytest.raises(ValueError, match="fewer"):
            codecs.binaries(len(data) // 4, True, data)


def test_what_cannot_be_written_is_named():
    for values in ([[1], [2]], [1, "a"], [{"a": 1}, None]):
        with pytest.raises(ValueError, match="column 'x' cannot be written"):
            _written(pd.DataFrame({"x": values}))
    with pytest.raises(ValueError, match="Duplicate"):
        _written(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="brotli"):
        _written(pd.DataFrame({"x": [1]}), "brotli")


def test_attributes_are_kept():
    frame = pd.DataFrame({"x": [1]})
    frame.attrs = {"source": "here"}
    assert parquet_read.read(_written(frame)).attrs == {"source": "here"}


@pytest.fixture
def patched():
    module = types.ModuleType("pandas.io.parquet")
    vars(module).update(vars(pandas.io.parquet))
    parquet.patch(module)
    return module


def test_pandas_takes_it_where_no_engine_is_named(patched, tmp_path):
    frame = FRAMES["floats"]
    engine = patched.get_engine("auto")
    path = tmp_path / "x.parquet"
    engine.write(frame, path, compression="gzip", index=None, partition_cols=None, filesystem=None)
    found = engine.read(path, columns=["f"], filters=None, filesystem=None, to_pandas_kwargs=None)
    pd.testing.assert_frame_equal(found, frame[["f"]])
    with pytest.raises(ValueError, match="'filters'"):
        engine.read(path, filters=[("f", ">", 1)])
    with pytest.raises(ValueError, match=r"is a directory.*pandas\.concat"):
        engine.read(tmp_path)
    with pytest.raises(ValueError, match="engine must be one of"):
        patched.get_engine("nothing")
