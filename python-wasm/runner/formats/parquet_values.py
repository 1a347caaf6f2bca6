"""The encodings of Parquet pages: read into numpy arrays, and written from them.

The bytes are untrusted. The count comes from the page's header, and the page must contain that many
values; anything else is a `ValueError`.
"""

import struct
import sys

from _belljar.formats import thrift

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
# Physical types of a fixed size, and numpy's names of them.
PLAIN = {INT32: "<i4", INT64: "<i8", FLOAT: "<f4", DOUBLE: "<f8"}
_modules = sys.modules
_length = struct.Struct("<I").unpack_from
_TOO_SHORT = "a page of the Parquet file is shorter than its values"


def plain(data, kind, width, count):
    """`count` plain values; `width` is that of values of the kind `FIXED`."""
    numpy = _modules["numpy"]
    if kind == BOOLEAN:
        bits = numpy.unpackbits(_bytes(data, (count + 7) // 8), bitorder="little")
        return bits[:count].view(bool)
    if kind in PLAIN:
        return _bytes(data, count * int(PLAIN[kind][2])).view(PLAIN[kind])
    if kind == BYTE_ARRAY:
        return _texts(data, count)
    width = 12 if kind == INT96 else width
    return _bytes(data, count * width).view(f"V{width}")


def _bytes(data, size):
    if len(data) < size:
        raise ValueError(_TOO_SHORT)
    return _modules["numpy"].frombuffer(data, "u1", size)


def _texts(data, count):
    """Values prefixed with their lengths, as an array of `bytes`."""
    if count * 4 > len(data):
        raise ValueError(_TOO_SHORT)
    data = bytes(data)
    values, at = [], 0
    add = values.append
    try:
        for _ in range(count):
            start = at + 4
            at = start + _length(data, at)[0]
            add(data[start:at])
    except struct.error:
        raise ValueError(_TOO_SHORT) from None
    if at > len(data):
        raise ValueError(_TOO_SHORT)
    return _objects(values)


def _objects(values):
    array = _modules["numpy"].empty(len(values), "O")
    array[:] = values
    return array


def hybrid(data, width, count):
    """`count` integers in runs of one value, or packed in `width` bits each."""
    numpy = _modules["numpy"]
    if width == 0:
        return numpy.zeros(count, "u4")
    if width > 32:
        raise ValueError(f"a page of the Parquet file has integers of {width} bits")
    values, lengths, packed = _runs(data, width, count)
    if len(packed) == len(lengths):
        found = unpacked(b"".join(packed), width, "u4")
    elif len(lengths) == 1:
        return numpy.full(count, values[0], "u4")
    else:
        lengths = numpy.array(lengths)
        found = numpy.repeat(numpy.array(values, "i8"), lengths)
        places = found < 0
        found = found.astype("u4")
        if packed:
            found[places] = unpacked(b"".join(packed), width, "u4")
    return found[:count]


def _runs(data, width, count):
    """The values and the lengths of all runs, -1 for packed values; and the packed values."""
    data = bytes(data)
    at, end, size, found = 0, len(data), (width + 7) // 8, 0
    values, lengths, packed = [], [], []
    while found < count:
        if at >= end:
            raise ValueError(_TOO_SHORT)
        head = data[at]
        at += 1
        if head > 127:
            reader = thrift.Reader(data, at - 1)
            head, at = reader.varint(), reader.at
        if head & 1:
            # The last group of a page may be truncated after its last value.
            part = data[at : at + (head >> 1) * width]
            at += len(part)
            if len(part) % width:
                part += bytes(-len(part) % width)
            length = len(part) // width * 8
            packed.append(part)
            values.append(-1)
        else:
            length = min(head >> 1, count - found)
            values.append(int.from_bytes(data[at : at + size], "little"))
            at += size
        lengths.append(length)
        found += length
    return values, lengths, packed


def unpacked(data, width, dtype):
    """All integers of `width` bits in `data`, whose length is a multiple of `width`."""
    numpy = _modules["numpy"]
    dtype = numpy.dtype(dtype)
    groups = numpy.frombuffer(data, "u1").reshape(-1, width)
    if width % 8 == 0:
        whole = numpy.zeros((len(groups) * 8, dtype.itemsize), "u1")
        whole[:, : width // 8] = groups.reshape(-1, width // 8)
        return whole.view(dtype.newbyteorder("<")).ravel()
    values = numpy.empty((len(groups), 8), dtype)
    mask = dtype.type((1 << width) - 1)
    for lane in range(8):
        first, shift = divmod(lane * width, 8)
        value = groups[:, first].astype(dtype) >> dtype.type(shift)
        for step in range(1, (shift + width + 7) // 8):
            value |= groups[:, first + step].astype(dtype) << dtype.type(8 * step - shift)
        values[:, lane] = value & mask
    return values.ravel()


def deltas(data, count):
    """`count` delta-encoded integers; and their end in `data`."""
    numpy = _modules["numpy"]
    reader = thrift.Reader(data)
    block, parts, total = reader.varint(), reader.varint(), reader.varint()
    value = _unzigzag(reader.varint())
    if total != count or not 0 < parts <= 4096 or not 0 < block <= 1 << 20 or block % (parts * 8):
        raise ValueError("a page of the Parquet file has differences in a form that is not valid")
    size = block // parts
    values = numpy.zeros(max(count, 1), "u8")
    values[0] = value & (1 << 64) - 1
    at = 1
    while at < count:
        least = numpy.uint64(_unzigzag(reader.varint()) & (1 << 64) - 1)
        widths = bytes(data[reader.at : reader.at + parts])
        reader.at += parts
        if len(widths) < parts:
            raise ValueError(_TOO_SHORT)
        for width in widths:
            if at >= count:
                break
            length = min(size, count - at)
            values[at : at + length] = least
            if width > 64 or reader.at + (length * width + 7) // 8 > len(data):
                raise ValueError(_TOO_SHORT)
            if width:
                part = bytes(data[reader.at : reader.at + size * width // 8])
                part += bytes(size * width // 8 - len(part))
                values[at : at + length] += unpacked(part, width, "u8")[:length]
                reader.at += len(part)
            at += length
    return numpy.cumsum(values, dtype="u8").view("i8")[:count], min(reader.at, len(data))


def _unzigzag(value):
    return (value >> 1) ^ -(value & 1)


def delta_texts(data, count):
    """Values after all of their lengths, as an array of `bytes`."""
    lengths, at = deltas(data, count)
    return _cut(bytes(data[at:]), lengths)


def _cut(data, lengths):
    if len(lengths) and (lengths.min() < 0 or lengths.max() > len(data)):
        raise ValueError(_TOO_SHORT)
    ends = lengths.cumsum(dtype="i8").tolist()
    if ends and ends[-1] > len(data):
        raise ValueError(_TOO_SHORT)
    return _objects([data[at:end] for at, end in zip([0, *ends], ends, strict=False)])


def delta_prefixed(data, count):
    """Values that share a prefix with the one before, as `bytes`."""
    prefixes, at = deltas(data, count)
    rest = delta_texts(data[at:], count)
    values, value = [], b""
    for prefix, end in zip(prefixes.tolist(), rest.tolist(), strict=True):
        if not 0 <= prefix <= len(value):
            raise ValueError(_TOO_SHORT)
        value = value[:prefix] + end
        values.append(value)
    return _objects(values)


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
