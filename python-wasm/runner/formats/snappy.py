"""Snappy's block format: reads all of it; writes it without making data smaller."""

_BLOCK = 1 << 16
# A literal whose length minus one follows in two bytes.
_LITERAL = 61 << 2
_BROKEN = "the data are not what Snappy compresses to"


def decompress(data, size):
    """Decompress to `size` bytes."""
    end, at, stated, shift = len(data), 0, 0, 0
    out = bytearray()
    try:
        while True:
            byte = data[at]
            at += 1
            stated |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 28:
                break
        if stated != size:
            raise ValueError(f"{_BROKEN}: {stated} bytes instead of {size}")
        made = 0
        while at < end:
            tag = data[at]
            kind = tag & 3
            if kind == 0:
                length = tag >> 2
                at += 1
                if length >= 60:
                    width = length - 59
                    length = int.from_bytes(data[at : at + width], "little")
                    at += width
                length += 1
                out += data[at : at + length]
                at += length
            else:
                if kind == 1:
                    length = (tag >> 2 & 7) + 4
                    offset = (tag >> 5) << 8 | data[at + 1]
                    at += 2
                elif kind == 2:
                    length = (tag >> 2) + 1
                    offset = data[at + 1] | data[at + 2] << 8
                    at += 3
                else:
                    length = (tag >> 2) + 1
                    offset = int.from_bytes(data[at + 1 : at + 5], "little")
                    at += 5
                start = made - offset
                if start < 0 or offset == 0:
                    raise ValueError(f"{_BROKEN}: a copy from outside of the data")
                if offset >= length:
                    out += out[start : start + length]
                else:
                    out += (out[start:] * (length // offset + 1))[:length]
            made += length
            if made > size:
                break
    except IndexError:
        raise ValueError(f"{_BROKEN}: they are cut off") from None
    if len(out) != size or made != size:
        raise ValueError(f"{_BROKEN}: they have another length")
    return out


def compress(data):
    """Encode `data` for Snappy as literals."""
    size = len(data)
    parts, value = [], size
    while value > 127:
        parts.append(bytes((value & 127 | 128,)))
        value >>= 7
    parts.append(bytes((value,)))
    view = memoryview(data)
    for at in range(0, size, _BLOCK):
        block = view[at : at + _BLOCK]
        parts.append(bytes((_LITERAL,)) + (len(block) - 1).to_bytes(2, "little"))
        parts.append(block)
    return b"".join(parts)
