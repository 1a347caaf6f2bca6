"""Feather files and Arrow streams, compared with pyarrow in both directions if it is installed."""

import datetime
import decimal
import io
import random
import struct
import types

import numpy as np
import pandas as pd
import pandas.io.feather_format
import pytest

from _belljar.formats import arrow_columns, arrow_read, arrow_write, codecs, feather, flatbuffers
from test_parquet import FRAMES, N

try:
    import pyarrow
    import pyarrow.feather
    import pyarrow.ipc
except ImportError:
    pyarrow = None

needs_pyarrow = pytest.mark.skipif(pyarrow is None, reason="pyarrow is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated as of:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*drops timezone information"),
]


def _written(frame, rows=None, compression="uncompressed"):
    file = io.BytesIO()
    arrow_write.Content(frame, compression, rows).write(file)
    file.seek(0)
    return file


def _as_here(frame):
    # pyarrow converts text to its own arrays.
    for column in frame.columns:
        if isinstance(frame[column].dtype, pd.StringDtype):
            is_new = frame[column].dtype.na_value is pd.NA
            frame = frame.astype({column: "string" if is_new else "str"})
    return frame


@pytest.mark.parametrize("rows", [None, 100, 1])
@pytest.mark.parametrize("name", FRAMES)
def test_what_is_written_is_read_again(name, rows):
    for compression in ("uncompressed", "lz4", "zstd") if rows != 1 else ("uncompressed",):
        found = arrow_read.read(_written(FRAMES[name], rows, compression))
        pd.testing.assert_frame_equal(found, FRAMES[name], check_freq=False)


@needs_pyarrow
@pytest.mark.parametrize("rows", [None, 100])
@pytest.mark.parametrize("name", FRAMES)
def test_pyarrow_reads_what_is_written(name, rows):
    for compression in (None, "uncompressed", "lz4", "zstd"):
        file = _written(FRAMES[name], rows, compression)
        found = pd.read_feather(file)
        pd.testing.assert_frame_equal(found, FRAMES[name], check_freq=False)
        for batch in range(pyarrow.ipc.open_file(file).num_record_batches):
            pyarrow.ipc.open_file(file).get_batch(batch).validate(full=True)


@needs_pyarrow
def test_feather_files_are_compressed_as_by_pyarrow():
    frame = pd.DataFrame({"x": np.arange(9999) // 9})
    sizes = {c: len(_written(frame, None, c).getvalue()) for c in (None, "lz4", "zstd")}
    assert sizes[None] == sizes["lz4"] < len(_written(frame).getvalue()) / 2
    assert sizes["zstd"] < len(_written(frame).getvalue()) / 2


@needs_pyarrow
@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
@pytest.mark.parametrize("name", FRAMES)
def test_what_pyarrow_writes_is_read(name, compression):
    for rows in (None, 70):
        file = io.BytesIO()
        FRAMES[name].to_feather(file, compression=compression, chunksize=rows)
        pd.testing.assert_frame_equal(arrow_read.read(file), _as_here(pd.read_feather(file)))


@needs_pyarrow
@pytest.mark.parametrize("name", FRAMES)
def test_types_that_can_lack_values_are_made_where_they_are_asked_for(name):
    if name in ("half", "nothing", "index", "named", "levels", "no rows", "range", "nullable"):
        pytest.skip("pandas' own answer depends on the version of pyarrow")
    file = io.BytesIO()
    FRAMES[name].to_feather(file)
    expected = pd.read_feather(file, dtype_backend="numpy_nullable")
    pd.testing.assert_frame_equal(arrow_read.read(file, nullable=True), _as_here(expected))


def _arrays():
    some = [None, 3, -1, None, 7, 0]
    texts = ["", None, "é" * 20, "a text of more than twelve", "b", "x" * 13]
    day = datetime.date(1960, 2, 29)
    time = datetime.time(23, 59, 59)
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9)
    number = decimal.Decimal("-12.50")
    yield from ((some, kind) for kind in "int8 int16 int32 int64 float32 float64".split())
    yield from (([None, 3, 255], kind) for kind in "uint8 uint16 uint32 uint64".split())
    yield [None, np.float16(1.5)], "float16"
    yield [True, None, False] * 5, "bool_"
    yield from ((texts, kind) for kind in "string large_string string_view".split())
    data = [None if text is None else text.encode() for text in texts]
    yield from ((data, kind) for kind in "binary large_binary binary_view".split())
    yield [b"abc", None, b"xyz"], ("binary", 3)
    yield [None, None], "null"
    yield [day, None], "date32"
    yield [day, None], "date64"
    yield from (([time, None], kind) for kind in (("time32", "s"), ("time32", "ms")))
    yield from (([time, None], kind) for kind in (("time64", "us"), ("time64", "ns")))
    for unit in ("s", "ms", "us", "ns"):
        yield [moment, None], ("timestamp", unit)
        yield [moment, None], ("timestamp", unit, "Asia/Tokyo")
        yield [moment], ("timestamp", unit, "+02:00")
        yield [datetime.timedelta(days=-3, seconds=5), None], ("duration", unit)
    for bits in (32, 64, 128, 256):
        yield [number, None, -number], (f"decimal{bits}", 9, 2)


@needs_pyarrow
@pytest.mark.parametrize(("values", "kind"), list(_arrays()), ids=str)
def test_every_flat_type_is_read(values, kind):
    name, *details = (kind,) if isinstance(kind, str) else kind
    array = pyarrow.array(values, getattr(pyarrow, name)(*details))
    for part in (array, array[1:], array[:0]):
        table = pyarrow.table({"x": part, "y": range(len(part))})
        for compression in (None, "lz4", "zstd"):
            for file in (_file(table, compression), _stream(table, compression)):
                expected = _as_here(table.to_pandas())
                pd.testing.assert_frame_equal(arrow_read.read(file), expected)


def _file(table, compression=None, **options):
    return _with(pyarrow.ipc.new_file, [table], compression, options)


def _stream(table, compression=None, **options):
    return _with(pyarrow.ipc.new_stream, [table], compression, options)


def _with(new, tables, compression, options):
    file = io.BytesIO()
    settings = pyarrow.ipc.IpcWriteOptions(compression=compression, **options)
    with new(file, tables[0].schema, options=settings) as writer:
        for table in tables:
            writer.write(table)
    file.seek(0)
    return file


@needs_pyarrow
@pytest.mark.parametrize("option", ["V4", "legacy"])
def test_older_forms_are_read(option):
    options = {"metadata_version": pyarrow.ipc.MetadataVersion.V4}
    if option == "legacy":
        options["use_legacy_format"] = True
    table = pyarrow.table({"a": [1, None], "t": ["x", "y"]})
    for file in (_file(table, **options), _stream(table, **options)):
        pd.testing.assert_frame_equal(arrow_read.read(file), _as_here(table.to_pandas()))


@needs_pyarrow
@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_grow_and_are_replaced(deltas):
    words = [["a", "b"], ["a", "b", "c"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    if not deltas:
        words += [["z", "a"], ["q"]]
    batches = [
        pyarrow.record_batch(
            {"c": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, None, len(w) - 1]), w)}
        )
        for w in words
    ]
    file = _with(pyarrow.ipc.new_stream, batches, None, {"emit_dictionary_deltas": deltas})
    found = arrow_read.read(file)["c"]
    expected = [value for word in words for value in (word[0], np.nan, word[-1])]
    assert found.astype(object).tolist() == pytest.approx(expected, nan_ok=True)
    assert set(found.cat.categories) == {value for word in words for value in word}


@needs_pyarrow
def test_dictionaries_of_all_kinds_are_read():
    for codes in (pyarrow.int8(), pyarrow.uint16(), pyarrow.int64(), pyarrow.uint64()):
        for values in (["x", None, "y"], [1.5, 2.5, 3.5], [True, False], [b"q"], ["l" * 13]):
            places = pyarrow.array([0, None, len(values) - 1, 0], codes)
            array = pyarrow.DictionaryArray.from_arrays(places, values, ordered=True)
            table = pyarrow.table({"c": array})
            found = arrow_read.read(_file(table))["c"]
            assert found.cat.ordered
            assert found.astype(object).where(found.notna(), None).tolist() == array.to_pylist()
            assert None not in found.cat.categories.tolist()


@needs_pyarrow
def test_other_columns_are_named_and_passed_over():
    inner = pyarrow.array([{"a": [1, 2]}, None])
    columns = {
        "first": pyarrow.array(["é", None]),
        "list": pyarrow.array([[1], None]),
        "large": pyarrow.array([["a"], []], pyarrow.large_list(pyarrow.string())),
        "view": pyarrow.array([["a"], []], pyarrow.list_view(pyarrow.string_view())),
        "fixed": pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.int8(), 2)),
        "struct": inner,
        "map": pyarrow.array([[("a", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int8())),
        "runs": pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([2], "int32"), ["a"]),
        "sparse": pyarrow.UnionArray.from_sparse(
            pyarrow.array([0, 1], "int8"), [pyarrow.array([1, 2]), pyarrow.array(["a", "b"])]
        ),
        "dense": pyarrow.UnionArray.from_dense(
            pyarrow.array([0, 0], "int8"), pyarrow.array([0, 1], "int32"), [pyarrow.array([1, 2])]
        ),
        "words": pyarrow.array([["x"], None], pyarrow.list_(pyarrow.string())),
        "months": pyarrow.array([(1, 2, 3), None], pyarrow.month_day_nano_interval()),
        "coded": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1]), ["a", "b"]),
        "last": pyarrow.array(["a long text of its own", "b"], pyarrow.string_view()),
    }
    table = pyarrow.table(columns)
    flat = ["last", "first", "coded"]
    nested = ["list", "large", "fixed", "struct", "map", "words"]
    for file in (_file(table), _stream(table, "lz4")):
        found = arrow_read.read(file, flat)
        pd.testing.assert_frame_equal(found, _as_here(table.select(flat).to_pandas()))
        for name in columns:
            if name in nested:
                assert len(arrow_read.read(file, [name])) == 2
            elif name not in flat:
                with pytest.raises(ValueError, match=rf"column '{name}' .* cannot be read here"):
                    arrow_read.read(file, [name])


@needs_pyarrow
def test_columns_are_chosen():
    file, frame = io.BytesIO(), FRAMES["floats"].set_index(pd.Index(np.arange(N) ** 2, name="k"))
    frame.to_feather(file)
    for columns in (["f"], ["f", "d"], ["d", "k"], [1], [1, 0]):
        expected = pd.read_feather(file, columns=columns)
        pd.testing.assert_frame_equal(arrow_read.read(file, columns), expected)
    assert arrow_read.read(file, []).shape == (N, 0)
    with pytest.raises(ValueError, match="no column 'x'"):
        arrow_read.read(file, ["x"])
    with pytest.raises(ValueError, match="0 to 2"):
        arrow_read.read(file, [3])
    for columns in ("f", {"f"}):
        with pytest.raises(TypeError, match="must be a sequence"):
            arrow_read.read(file, columns)
    with pytest.raises(TypeError, match="indices or names"):
        arrow_read.read(file, ["f", 1])


@needs_pyarrow
def test_what_cannot_be_read_is_named():
    frame = FRAMES["floats"]
    file = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="V1"):
        pyarrow.feather.write_feather(frame, file, version=1)
    with pytest.raises(ValueError, match="version 1"):
        arrow_read.read(file)
    periods = pd.DataFrame({"p": pd.period_range("2020", periods=3, freq="M")})
    file = io.BytesIO()
    periods.to_feather(file)
    with pytest.raises(ValueError, match=r"'p' .* type 'pandas\.period'"):
        arrow_read.read(file)


def test_what_cannot_be_written_is_named():
    for values in ([[1], [2]], [1, "a"], [{"a": 1}, None], pd.period_range("2020", periods=2)):
        with pytest.raises(ValueError, match="column 'x' cannot be written to a Feather file"):
            _written(pd.DataFrame({"x": values}))
    with pytest.raises(ValueError, match="Duplicate"):
        _written(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match=r'brotli.*"uncompressed"'):
        arrow_write.Content(pd.DataFrame({"x": [1]}), "brotli")
    with pytest.raises(ValueError, match="chunksize"):
        arrow_write.Content(pd.DataFrame({"x": [1]}), None, 0)


def test_types_are_kept_where_there_are_no_rows():
    frame = _mixed().iloc[:0]
    pd.testing.assert_frame_equal(arrow_read.read(_written(frame)), frame)


def test_attributes_are_kept():
    frame = pd.DataFrame({"x": [1]})
    frame.attrs = {"source": "here"}
    assert arrow_read.read(_written(frame)).attrs == {"source": "here"}


def test_what_is_read_can_be_changed():
    found = arrow_read.read(_written(FRAMES["integers"]))
    found.loc[0, "i8"] = 5
    assert found["i8"].iloc[0] == 5
    assert found["i4"].to_numpy(copy=True).flags.writeable


def test_a_stream_that_cannot_be_searched_is_read():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise OSError("a pipe")

    data = _written(FRAMES["texts"]).getvalue()
    pd.testing.assert_frame_equal(arrow_read.read(Pipe(data)), FRAMES["texts"])


def test_a_buffer_that_does_not_get_smaller_is_written_as_it_is(monkeypatch):
    data = random.Random(3).randbytes(100)
    assert arrow_columns._packed(codecs.LZ4, data) == b"\xff" * 8 + data
    monkeypatch.setattr(codecs, "LIMIT", 99)
    assert arrow_columns._packed(codecs.LZ4, bytes(100)) == b"\xff" * 8 + bytes(100)


def _broken(data, times):
    rng = random.Random(4)
    for at in range(0, len(data), 1 + len(data) // 700):
        yield data[:at]
    for _ in range(times):
        copy = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            copy[rng.randrange(len(copy))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        yield bytes(copy)


def _is_refused_or_read(data):
    try:
        arrow_read.read(io.BytesIO(data))
    except (ValueError, MemoryError, OverflowError):
        pass


def _mixed():
    frame = pd.DataFrame({"s": ["a", "é", None, "a"] * 3, "i": range(12), "f": [1.5, np.nan] * 6})
    frame["t"] = pd.Timestamp("2020-01-01", tz="UTC")
    return frame.assign(c=frame["s"].astype("category"), b=frame["i"] > 3).set_index("i")


def test_broken_files_are_refused_or_read():
    for data in _broken(_written(_mixed(), 7).getvalue(), 3000):
        _is_refused_or_read(data)


@needs_pyarrow
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_broken_files_of_pyarrow_are_refused_or_read(compression):
    table = pyarrow.Table.from_pandas(_mixed())
    table = table.append_column("v", table["s"].cast(pyarrow.string_view()))
    table = table.append_column("n", pyarrow.array([[1]] * 12))
    for file in (_file(table, compression), _stream(table, compression)):
        for data in _broken(file.getvalue(), 2000):
            _is_refused_or_read(data)


def _schema(field, **more):
    fields = flatbuffers.Vector([field] * more.pop("times", 1))
    return {0: ("<h", 4), 1: ("<B", 1), 2: {1: fields}, 3: ("<q", 0)}


def _message(table, body=b""):
    data = flatbuffers.put(table)
    return struct.pack("<Ii", 0xFFFFFFFF, len(data)) + data + body


_NUMBER = {0: b"x", 2: ("<B", 2), 3: {0: ("<i", 64), 1: ("<?", True)}}
_NOTHING = {0: b"x", 2: ("<B", 1), 3: {}}


def _batch(rows, nodes, buffers, size=0):
    vectors = flatbuffers.Vector(nodes, "<qq"), flatbuffers.Vector(buffers, "<qq")
    table = {0: ("<q", rows), 1: vectors[0], 2: vectors[1]}
    return {0: ("<h", 4), 1: ("<B", 3), 2: table, 3: ("<q", size)}


@pytest.mark.parametrize(
    ("batch", "body", "said"),
    [
        (_batch(1 << 40, [(1 << 40, 0)], [(0, 0), (0, 8)], 8), bytes(8), "1099511627776 rows"),
        (_batch(1 << 30, [(1 << 30, 0)], [(0, 0), (0, 8)], 8), bytes(8), "shorter than its"),
        (_batch(-1, [(-1, 0)], [(0, 0), (0, 8)], 8), bytes(8), "-1 rows"),
        (_batch(1, [(1, 0)], [(0, 0), (0, 1 << 40)], 8), bytes(8), "outside of its batch"),
        (_batch(1, [(1, 0)], [(0, 0), (-8, 8)], 8), bytes(8), "outside of its batch"),
        (_batch(1, [(1, 0)], [(0, 0), (0, 8)], 1 << 50), bytes(8), "cut off|invalid offsets"),
        (_batch(1, [(2, 0)], [(0, 0), (0, 16)], 16), bytes(16), "contradicts itself"),
        (_batch(1, [(1, 2)], [(0, 0), (0, 16)], 16), bytes(16), "contradicts itself"),
        (_batch(1, [(1, 0)], [(0, 0)], 8), bytes(8), "fewer columns"),
        (_batch(1, [], [(0, 0), (0, 8)], 8), bytes(8), "fewer columns"),
        (_batch(1, [(1, 1)], [(0, 0), (0, 8)], 8), bytes(8), "shorter than its"),
    ],
)
def test_lengths_that_lie_are_refused(batch, body, said):
    data = _message(_schema(_NUMBER)) + _message(batch, body)
    with pytest.raises(ValueError, match=said):
        arrow_read.read(io.BytesIO(data))


def test_many_rows_of_nothing_are_refused():
    batch = _message(_batch(1 << 30, [(1 << 30, 0)], []))
    with pytest.raises(ValueError, match="4294967296 rows"):
        arrow_read.read(io.BytesIO(_message(_schema(_NOTHING)) + batch * 4))


def test_a_schema_that_is_deep_or_contains_itself_is_refused():
    field = _NUMBER
    for _ in range(100):
        field = {0: b"x", 2: ("<B", 12), 3: {}, 5: flatbuffers.Vector([field])}
    with pytest.raises(ValueError, match="nested too deep"):
        arrow_read.read(io.BytesIO(_message(_schema(field))))
    field = {0: b"x", 2: ("<B", 12), 3: {}, 5: flatbuffers.Vector([_NUMBER, _NUMBER])}
    data = bytearray(_message(_schema(field)))
    # Both children become their own parent: the offsets in the last vector point back.
    at = data.rindex(struct.pack("<I", 2), 0, data.rindex(b"\x01\x00\x00\x00x"))
    parent = data.index(b"\x01\x00\x00\x00x\x00")
    for place in (at + 4, at + 8):
        for target in range(8, parent):
            copy = bytearray(data)
            struct.pack_into("<I", copy, place, (target - place) & 0xFFFFFFFF)
            with pytest.raises(ValueError, match="Arrow data"):
                arrow_read.read(io.BytesIO(copy))


@pytest.fixture
def patched():
    module = types.ModuleType("pandas.io.feather_format")
    vars(module).update(vars(pandas.io.feather_format))
    feather.patch(module)
    return module


def test_pandas_takes_it(patched, tmp_path):
    frame, path = FRAMES["floats"], tmp_path / "x.feather"
    for compression in (None, "lz4", "zstd", "uncompressed"):
        patched.to_feather(frame, path, compression=compression, chunksize=50)
        pd.testing.assert_frame_equal(patched.read_feather(path), frame)
    pd.testing.assert_frame_equal(patched.read_feather(str(path), columns=["f"]), frame[["f"]])
    with pytest.raises(ValueError, match="only support IO with DataFrames"):
        patched.to_feather(frame["f"], path)
    with pytest.raises(TypeError, match="'nothing'"):
        patched.to_feather(frame, path, nothing=1)
    with pytest.raises(ValueError, match="version=2"):
        patched.to_feather(frame, path, version=1)
    with pytest.raises(ValueError, match="dtype_backend"):
        patched.read_feather(path, dtype_backend="x")
    assert patched.read_feather.__doc__ == pandas.io.feather_format.read_feather.__doc__
