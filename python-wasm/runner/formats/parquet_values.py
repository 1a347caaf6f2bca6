"""The encodings of Parquet pages: read into numpy arrays, and written from them.

The bytes are untrusted. The count comes from the page's header, and the page must contain that many
values; anything else is a `ValueError`.
"""

import sys

from _belljar.formats import codecs, thrift

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
# Physical types of a fixed size, and numpy's names of them.
PLAIN = {INT32: "<i4", INT64: "<i8", FLOAT: "<f4", DOUBLE: "<f8"}
_modules = sys.modules
_TOO_SHORT = "a page of the Parquet file is shorter than its values"


def plain(data, kind, width, count, is_text=False):
    """`count` plain values; `width` is that of values of the kind `FIXED`.

    With `is_text`, those of the kind `BYTE_ARRAY` are `str`, else `bytes`.
    """
    numpy = _modules["numpy"]
    if kind == BOOLEAN:
        bits = numpy.unpackbits(_bytes(data, (count + 7) // 8), bitorder="little")
        return bits[:count].view(bool)
    if kind in PLAIN:
        return _bytes(data, count * int(PLAIN[kind][2])).view(PLAIN[kind])
    if kind == BYTE_ARRAY:
        return codecs.binaries(count, is_text, data)
    width = 12 if kind == INT96 else width
    return _bytes(data, count * width).view(f"V{width}")


def _bytes(data, size):
    if len(data) < size:
        raise ValueError(_TOO_SHORT)
    return _modules["numpy"].frombuffer(data, "u1", size)


def hybrid(data, width, count):
    """`count` integers in runs of one value, or packed in `width` bits each."""
    numpy = _modules["numpy"]
    if width == 0 or count == 0:
        return numpy.zeros(count, "u4")
    if width > 32:
        raise ValueError(f"a page of the Parquet file has integers of {width} bits")
    reader = thrift.Reader(data)
    head = reader.varint()
    if head & 1 or head >> 1 < count:
        return numpy.frombuffer(codecs.decode(codecs.HYBRID, count, bytes((width,)), data), "<u4")
    # One run, as if no value is missing.
    size = (width + 7) // 8
    value = bytes(_bytes(data[reader.at :], size))
    return numpy.full(count, int.from_bytes(value, "little"), "u4")


def deltas(data, count):
    """`count` delta-encoded integers; and their end in `data`."""
    numpy = _modules["numpy"]
    if count == 0:
        return numpy.empty(0, "i8"), 0
    found = codecs.decode(codecs.DELTAS, count, data)
    return numpy.frombuffer(found, "<i8", count), int.from_bytes(found[-4:], "little")


def delta_texts(data, count, is_text):
    """Values after all of their lengths, as `str` or `bytes`."""
    lengths, at = deltas(data, count)
    if count and not 0 <= lengths.min() <= lengths.max() <= len(data):
        raise ValueError(_TOO_SHORT)
    return codecs.binaries(count, is_text, data[at:], lengths)


def delta_prefixed(data, count, is_text):
    """Values that share a prefix with the one before, as `str` or `bytes`."""
    prefixes, at = deltas(data, count)
    rest = delta_texts(data[at:], count, False)
    values, value = [], b""
    for prefix, end in zip(prefixes.tolist(), rest.tolist(), strict=True):
        if not 0 <= prefix <= len(value):
            raise ValueError(_TOO_SHORT)
        value = value[:prefix] + end
        values.append(value.decode() if is_text else value)
    return _modules["numpy"].fromiter(values, "O", count)


def split(data, kind, width, count):
    """`count` values stored as all first bytes, then all second ones, and so on."""
    width = width if kind == FIXED else int(PLAIN[kind][2])
    lanes = _bytes(data, count * width).reshape(width, count)
    values = _modules["numpy"].ascontiguousarray(lanes.T)
    return values.reshape(-1).view(PLAIN.get(kind, f"V{width}"))


def put_bits(flags):
    """Booleans as a run of 1-bit values, as `hybrid` reads them."""
    groups = (len(flags) + 7) // 8
    bits = _modules["numpy"].packbits(flags, bitorder="little")
    return thrift.varint(groups << 1 | 1) + bits.tobytes()


def put_codes(codes, size):
    """Indices into a dictionary of that size: their width in bits, and a run of them."""
    numpy = _modules["numpy"]
    # Widths of whole bytes need no shifts, and compress about as well.
    width = 8 if size <= 1 << 8 else 16 if size <= 1 << 16 else 32
    groups = (len(codes) + 7) // 8
    padded = numpy.zeros(groups * 8, f"<u{width // 8}")
    padded[: len(codes)] = codes
    return bytes((width,)) + thrift.varint(groups << 1 | 1) + padded.tobytes()


def put_texts(values):
    """Values of `bytes`, each prefixed with its length."""
    numpy = _modules["numpy"]
    lengths = numpy.fromiter(map(len, values), "<u4", len(values))
    ends = lengths.cumsum(dtype="i8") + 4 * numpy.arange(1, len(values) + 1, dtype="i8")
    out = numpy.empty(int(ends[-1]) if len(values) else 0, "u1")
    is_length = numpy.zeros(len(out), bool)
    starts = ends - lengths - 4
    for place in range(4):
        is_length[starts + place] = True
    out[is_length] = lengths.view("u1")
    out[~is_length] = numpy.frombuffer(b"".join(values), "u1")
    return out.tobytes()
