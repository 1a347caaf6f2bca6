"""A Parquet file as a DataFrame."""

import ast
import sys
from decimal import Decimal

from _belljar import parquet_pages, parquet_values
from _belljar.parquet_schema import Metadata, number

_modules = sys.modules
_MASKED = frozenset(
    "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64 boolean".split()
)
# Days from the one that INT96 counts from to the first of 1970.
_EPOCH = 2440588
_DAY = 86_400_000_000_000


def read(file, columns=None, nullable=False):
    """The DataFrame in a file; `nullable` asks for types that can lack values."""
    pandas = _modules["pandas"]
    metadata = Metadata(file)
    notes = metadata.pandas()
    wanted = _chosen(metadata, notes, columns)
    described = {
        note.get("field_name") or note.get("name"): note
        for note in notes.get("columns", ())
        if type(note) is dict
    }
    values = {}
    for place, leaf in wanted:
        note = described.get(leaf.name, {})
        values[leaf.name] = _column(file, metadata, place, leaf, note, nullable)
    index = _index(values, notes, described, metadata.rows)
    frame = pandas.DataFrame(values, index=index, copy=False)
    frame.columns = _labels(frame.columns, notes)
    frame.attrs = metadata.attributes()
    return frame


def _chosen(metadata, notes, columns):
    """The places and leaves of the columns to read, those of the index last."""
    names = [leaf.name for leaf in metadata.leaves]
    if len(set(names)) != len(names):
        raise ValueError("the Parquet file has two columns of one name")
    if columns is None:
        wanted = names
    else:
        wanted = [str(name) for name in columns]
        lacking = [name for name in wanted if name not in names]
        if lacking:
            raise ValueError(f"the Parquet file has no column {lacking[0]!r}, but {names}")
        index = [n for n in notes.get("index_columns", ()) if type(n) is str and n in names]
        wanted += index
    return [
        (names.index(name), metadata.leaves[names.index(name)]) for name in dict.fromkeys(wanted)
    ]


def _column(file, metadata, place, leaf, note, nullable):
    if leaf.meaning is None:
        raise ValueError(
            f"column {leaf.name!r} of the Parquet file is nested (a list, map or struct), which "
            "cannot be read here: choose others with columns=[...]"
        )
    chunks = [_chunk(file, metadata, group, leaf) for group in metadata.groups]
    chunks = [chunk for chunk in chunks if chunk.values is not None]
    valid = _valid(chunks)
    dtype = note.get("numpy_type")
    if note.get("pandas_type") == "categorical":
        details = note.get("metadata")
        ordered = type(details) is dict and details.get("ordered") is True
        return _categorical(chunks, leaf, valid, ordered)
    values = _dense(chunks, leaf)
    if leaf.meaning[0] == "plain" and type(dtype) is str and dtype.startswith("timedelta64["):
        if leaf.kind == parquet_values.INT64:
            values = values.view(dtype)
    elif values.dtype.kind == "M" and (
        note.get("pandas_type") == "datetimetz" or leaf.meaning[-1] is True
    ):
        return _zoned(_spread(values, valid), note)
    return _typed(values, valid, leaf, dtype, nullable)


def _chunk(file, metadata, group, leaf):
    for chunk in group.get(1, ()):
        described = chunk.get(3) if type(chunk) is dict else None
        if type(described) is dict and described.get(3) == [leaf.name.encode()]:
            break
    else:
        raise ValueError(f"a row group of the Parquet file lacks the column {leaf.name!r}")
    if chunk.get(1):
        raise ValueError(f"column {leaf.name!r} is in another file, which is not read here")
    codec, count = number(described, 4), number(described, 5)
    parquet_pages.check_codec(codec, leaf.name)
    if described.get(1) != leaf.kind or count != number(group, 3):
        raise ValueError(f"the Parquet file contradicts itself about the column {leaf.name!r}")
    start, size = number(described, 9), number(described, 7)
    if 0 < number(described, 11, 0) < start:
        start = number(described, 11)
    if start + size > metadata.size:
        raise ValueError(f"column {leaf.name!r} of the Parquet file is cut off")
    file.seek(start)
    column = parquet_pages.Column(leaf.name, leaf.kind, leaf.width, leaf.levels, codec, count)
    return column.read(file.read(size))


def _valid(chunks):
    """Which values are there; None if all are."""
    numpy = _modules["numpy"]
    if all(chunk.valid is None for chunk in chunks):
        return None
    masks = [numpy.ones(len(c.values), bool) if c.valid is None else c.valid for c in chunks]
    return numpy.concatenate(masks)


def _dense(chunks, leaf):
    """The values that are there, one after the other."""
    numpy = _modules["numpy"]
    parts = []
    for chunk in chunks:
        if chunk.dictionary is None:
            parts.append(_meant(chunk.values, leaf))
        else:
            parts.append(_meant(chunk.dictionary, leaf)[chunk.values])
        chunk.values = chunk.dictionary = None
    if not parts:
        return _meant(parquet_values.plain(b"", leaf.kind, leaf.width, 0), leaf)
    return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def _meant(values, leaf):
    """What the values of the physical type stand for."""
    numpy = _modules["numpy"]
    kind, *details = leaf.meaning
    if kind == "string":
        return _objects([value.decode() for value in _binaries(values, leaf)])
    if kind == "bytes":
        return _objects(_binaries(values, leaf))
    if kind == "integer":
        same = values.view(f"{details[0][0]}{values.itemsize}")
        return same.astype(details[0], copy=False)
    if kind == "timestamp":
        return values.astype("i8", copy=False).view(f"M8[{details[0]}]")
    if kind == "date":
        return values.astype("M8[D]").astype(object)
    if kind == "time":
        moments = values.astype(f"M8[{details[0]}]").astype("M8[us]").tolist()
        return _objects([moment.time() for moment in moments])
    if kind == "decimal":
        return _decimals(values, leaf, details[0])
    if kind == "half":
        return values.view("<f2")
    if kind == "int96":
        parts = values.view([("time", "<i8"), ("day", "<i4")])
        return ((parts["day"].astype("i8") - _EPOCH) * _DAY + parts["time"]).view("M8[ns]")
    return numpy.full(len(values), None, "O") if kind == "null" else values


def _binaries(values, leaf):
    if leaf.kind == parquet_values.BYTE_ARRAY:
        return values.tolist()
    data, width = values.tobytes(), leaf.width
    return [data[at : at + width] for at in range(0, len(data), width)]


def _decimals(values, leaf, scale):
    if leaf.kind in (parquet_values.INT32, parquet_values.INT64):
        numbers = values.tolist()
    else:
        parts = _binaries(values, leaf)
        numbers = [int.from_bytes(part, "big", signed=True) for part in parts]
    return _objects([Decimal(f"{number}E-{scale}") for number in numbers])


def _objects(values):
    array = _modules["numpy"].empty(len(values), "O")
    array[:] = values
    return array


def _spread(values, valid, missing=None):
    """The values at their places, with what stands for a missing one between them."""
    numpy = _modules["numpy"]
    if valid is None:
        return values
    if missing is None and values.dtype.kind in "mM":
        missing = numpy.array("NaT", values.dtype)
    full = numpy.full(len(valid), missing, values.dtype)
    full[valid] = values
    return full


def _typed(values, valid, leaf, dtype, nullable):
    """A column as pandas has it: of the type `dtype` where that is one that can lack values."""
    pandas, kind = _modules["pandas"], values.dtype.kind
    if leaf.meaning[0] == "string":
        spread = _spread(values, valid)
        is_nullable = nullable or dtype == "string"
        return pandas.array(spread, dtype="string" if is_nullable else "str")
    if kind in "iufb" and (nullable or dtype in _MASKED):
        return _masked(values, valid, None if nullable else dtype)
    if valid is None:
        return values
    if kind == "f":
        return _spread(values, valid, float("nan"))
    if kind in "iu":
        return _spread(values.astype("f8"), valid, float("nan"))
    if kind == "b":
        return _spread(values.astype(object), valid)
    return _spread(values, valid)


def _masked(values, valid, dtype):
    numpy, arrays = _modules["numpy"], _modules["pandas"].arrays
    mask = numpy.zeros(len(values), bool) if valid is None else ~valid
    cls = {"f": arrays.FloatingArray, "b": arrays.BooleanArray}
    if values.dtype == "f2":
        values = values.astype("f4")
    array = cls.get(values.dtype.kind, arrays.IntegerArray)(_spread(values, valid, 0), mask)
    return array if dtype is None else array.astype(dtype)


def _zoned(values, note):
    details = note.get("metadata")
    zone = details.get("timezone") if type(details) is dict else None
    zone = zone if type(zone) is str else "UTC"
    index = _modules["pandas"].DatetimeIndex(values, tz="UTC")
    try:
        return index.tz_convert(zone).array
    except (KeyError, OSError):
        raise ValueError(f"the Parquet file names the unknown time zone {zone!r}") from None


def _categorical(chunks, leaf, valid, ordered):
    """A column of categories, from its dictionary where all chunks have the same one."""
    numpy, pandas = _modules["numpy"], _modules["pandas"]
    first = chunks[0].dictionary if chunks else None
    same = first is not None and all(
        c.dictionary is not None and numpy.array_equal(c.dictionary, first) for c in chunks
    )
    if same:
        categories = _meant(first, leaf)
        codes = numpy.concatenate([chunk.values.astype("i4") for chunk in chunks])
    else:
        codes, categories = pandas.factorize(_dense(chunks, leaf))
    codes = _spread(codes.astype("i4"), valid, -1)
    if leaf.meaning[0] == "string":
        categories = pandas.Index(categories, dtype="str")
    return pandas.Categorical.from_codes(codes, categories, ordered=ordered)


def _index(values, notes, described, rows):
    """The index of which the notes speak, taken out of the values; else numbers."""
    pandas = _modules["pandas"]
    levels, names = [], []
    for note in notes.get("index_columns", ()):
        if type(note) is dict and note.get("kind") == "range":
            bounds = [note.get(name) for name in ("start", "stop", "step")]
            if all(type(bound) is int for bound in bounds) and bounds[2]:
                index = pandas.RangeIndex(*bounds, name=_hashable(note.get("name")))
                if len(index) == rows:
                    return index
        elif type(note) is str and note in values:
            levels.append(values.pop(note))
            names.append(_hashable(described.get(note, {}).get("name", note)))
    if not levels:
        return pandas.RangeIndex(rows)
    if len(levels) == 1:
        return pandas.Index(levels[0], name=names[0])
    return pandas.MultiIndex.from_arrays(levels, names=names)


def _hashable(name):
    return name if name is None or type(name) in (str, int, float, bool) else str(name)


def _labels(columns, notes):
    """The names of the columns, as what they were before they became text."""
    pandas = _modules["pandas"]
    levels = [level for level in notes.get("column_indexes", ()) if type(level) is dict]
    names = [_hashable(level.get("name")) for level in levels]
    try:
        if len(levels) > 1:
            return pandas.MultiIndex.from_tuples(map(ast.literal_eval, columns), names=names)
        if levels and levels[0].get("pandas_type") in ("int64", "datetime", "float64"):
            kind = str(levels[0].get("numpy_type"))
            columns = columns.astype(kind)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return columns
    return columns.rename(names[0]) if len(levels) == 1 else columns
