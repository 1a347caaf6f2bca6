"""Reads a Parquet file as a DataFrame."""

import sys

from _belljar.formats import parquet_nested, parquet_pages, parquet_values, reframing
from _belljar.formats.parquet_schema import Metadata, number
from _belljar.formats.reframing import objects, spread

_modules = sys.modules
# Days from the epoch of INT96 to 1970.
_EPOCH = 2440588
_DAY = 86_400_000_000_000


def read(file, columns=None, nullable=False):
    """The DataFrame in a file; `nullable` requests types that support missing values."""
    metadata = Metadata(file)
    notes = metadata.pandas()
    wanted = _chosen(metadata, notes, columns)
    described, values = reframing.described(notes), {}
    for place, leaf in wanted:
        note = described.get(leaf.name, {})
        values[leaf.name] = _column(file, metadata, place, leaf, note, nullable)
    frame = reframing.frame(values, notes, metadata.rows)
    frame.attrs = metadata.attributes()
    return frame


def _chosen(metadata, notes, columns):
    """The indices and leaves of the columns to read, those of the index last."""
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
        return _nested(file, metadata, leaf)
    chunks = [_chunk(file, metadata, group, leaf) for group in metadata.groups]
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
        return _zoned(spread(values, valid), note)
    return reframing.typed(values, valid, dtype, nullable, leaf.meaning[0] == "string")


def _nested(file, metadata, top):
    """A column of lists, maps or structs."""
    numpy = _modules["numpy"]
    root = parquet_nested.Node(iter(top.elements))
    for node in root.leaves():
        chunks = [_chunk(file, metadata, group, node.leaf, node) for group in metadata.groups]
        levels = [page.valid for chunk in chunks for page in chunk.pages]
        levels = zip(*levels, strict=True) if levels else ((), ())
        levels = [numpy.concatenate(part) if part else numpy.zeros(0, "u4") for part in levels]
        node.levels = (*levels, _dense(chunks, node.leaf))
    return parquet_nested.column(root, metadata.rows)


def _chunk(file, metadata, group, leaf, node=None):
    path = [leaf.name.encode()] if node is None else list(node.path)
    for chunk in group.get(1, ()):
        described = chunk.get(3) if type(chunk) is dict else None
        if type(described) is dict and described.get(3) == path:
            break
    else:
        raise ValueError(f"a row group of the Parquet file lacks the column {leaf.name!r}")
    if chunk.get(1):
        raise ValueError(f"column {leaf.name!r} is in another file, which is not read here")
    codec, count = number(described, 4), number(described, 5)
    parquet_pages.check_codec(codec, leaf.name)
    if described.get(1) != leaf.kind or (node is None and count != number(group, 3)):
        raise ValueError(f"the Parquet file contradicts itself about the column {leaf.name!r}")
    start, size = number(described, 9), number(described, 7)
    if 0 < number(described, 11, 0) < start:
        start = number(described, 11)
    if start + size > metadata.size:
        raise ValueError(f"column {leaf.name!r} of the Parquet file is cut off")
    file.seek(start)
    levels = (leaf.levels, None) if node is None else (node.definition, node.repetition)
    column = parquet_pages.Column(leaf, levels[0], codec, count, levels[1])
    return column.read(file.read(size))


def _valid(chunks):
    """The mask of valid values; None if all are."""
    numpy = _modules["numpy"]
    pages = [page for chunk in chunks for page in chunk.pages]
    if all(page.valid is None for page in pages):
        return None
    return numpy.concatenate(
        [numpy.ones(page.count, bool) if page.valid is None else page.valid for page in pages]
    )


def _dense(chunks, leaf):
    """The valid values in order."""
    numpy = _modules["numpy"]
    parts = []
    for chunk in chunks:
        dictionary = None if chunk.dictionary is None else _meant(chunk.dictionary, leaf)
        for page in chunk.pages:
            parts.append(
                dictionary.take(page.values) if page.are_codes else _meant(page.values, leaf)
            )
        # Freed, since the values exist twice from here on.
        chunk.pages = ()
    if not parts:
        return _meant(parquet_values.plain(b"", leaf.kind, leaf.width, 0), leaf)
    # Also one part is copied: it may be the file's bytes, which cannot be changed.
    return numpy.concatenate(parts)


def _meant(values, leaf):
    """Convert values of the physical type to their logical type."""
    numpy = _modules["numpy"]
    kind, *details = leaf.meaning
    if kind in ("string", "bytes"):
        if leaf.kind == parquet_values.BYTE_ARRAY:
            return values
        found = _binaries(values, leaf)
        return objects([value.decode() for value in found] if kind == "string" else found)
    if kind == "integer":
        same = values.view(f"{details[0][0]}{values.itemsize}")
        return same.astype(details[0], copy=False)
    if kind == "timestamp":
        return values.astype("i8", copy=False).view(f"M8[{details[0]}]")
    if kind == "date":
        return values.astype("M8[D]").astype(object)
    if kind == "time":
        return reframing.times(values, details[0])
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
    return reframing.decimals(numbers, scale)


def _zoned(values, note):
    details = note.get("metadata")
    zone = details.get("timezone") if type(details) is dict else None
    return reframing.zoned(values, zone if type(zone) is str else "UTC", "Parquet")


def _categorical(chunks, leaf, valid, ordered):
    """A categorical column, with its dictionary if all chunks have the same one."""
    numpy, pandas = _modules["numpy"], _modules["pandas"]
    chunks = [chunk for chunk in chunks if chunk.pages]
    pages = [page for chunk in chunks for page in chunk.pages]
    first = chunks[0].dictionary if chunks else None
    same = all(page.are_codes for page in pages) and all(
        numpy.array_equal(chunk.dictionary, first) for chunk in chunks
    )
    if pages and same:
        categories = _meant(first, leaf)
        codes = numpy.concatenate([page.values for page in pages])
    else:
        codes, categories = pandas.factorize(_dense(chunks, leaf))
    codes = spread(codes.astype("i4"), valid, -1)
    return reframing.categorical(codes, categories, ordered, leaf.meaning[0] == "string")
