"""Reads LZ4's frame format."""

_MAGIC = 0x184D2204
_BROKEN = "the data are not what LZ4 compresses to"
_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_WINDOW = 1 << 16


def decompress(data, size):
    """Decompress the frames in `data` to `size` bytes. Ignores checksums."""
    out = bytearray()
    at, data = 0, memoryview(data)
    while at < len(data):
        at = _frame(data, at, out, size)
    if len(out) != size:
        raise ValueError(f"{_BROKEN}: {len(out)} bytes instead of {size}")
    return out


def _number(data, at, size=4):
    found = data[at : at + size]
    if len(found) != size:
        raise ValueError(f"{_BROKEN}: they are cut off")
    return int.from_bytes(found, "little")


def _frame(data, at, out, size):
    magic = _number(data, at)
    if magic & ~15 == 0x184D2A50:
        # A skippable frame.
        return at + 8 + _number(data, at + 4)
    flags, block = _number(data, at + 4, 1), _number(data, at + 5, 1) >> 4 & 7
    if magic != _MAGIC or flags >> 6 != 1 or block not in _BLOCK_SIZES:
        raise ValueError(f"{_BROKEN}: they begin with no frame")
    if flags & 1:
        raise ValueError(f"{_BROKEN}: they need a dictionary")
    at += 7 + (8 if flags & 8 else 0)
    start = len(out)
    while True:
        length = _number(data, at)
        at += 4
        if length == 0:
            return at + (4 if flags & 4 else 0)
        is_plain, length = length >> 31, length & 0x7FFFFFFF
        body = data[at : at + length]
        if len(body) != length:
            raise ValueError(f"{_BROKEN}: they are cut off")
        at += length + (4 if flags & 16 else 0)
        before = len(out)
        if is_plain:
            out += body
        else:
            # Blocks may refer to earlier ones within a frame.
            _block(bytes(body), out, before if flags & 32 else start, before + _BLOCK_SIZES[block])
        if len(out) - before > _BLOCK_SIZES[block] or len(out) > size:
            raise ValueError(f"{_BROKEN}: a block of them is too long")


def _block(data, out, start, limit):
    """Append a decompressed block; it may refer to bytes from `start` onwards."""
    at, end, made = 0, len(data), len(out)
    try:
        while True:
            token = data[at]
            at += 1
            length = token >> 4
            if length:
                if length == 15:
                    while data[at] == 255:
                        length += 255
                        at += 1
                    length += data[at]
                    at += 1
                begin, at = at, at + length
                out += data[begin:at]
                made += length
            if at >= end:
                break
            source = made - (data[at] | data[at + 1] << 8)
            at += 2
            length = (token & 15) + 4
            if length == 19:
                while data[at] == 255:
                    length += 255
                    at += 1
                length += data[at]
                at += 1
                # Otherwise a few bytes could expand to many.
                if made + length > limit:
                    raise ValueError(f"{_BROKEN}: a block of them is too long")
            if source < start:
                raise ValueError(f"{_BROKEN}: a copy from outside of the data")
            copied = source + length
            if copied <= made:
                out += out[source:copied]
            else:
                out += (out[source:] * (length // (made - source) + 1))[:length]
            made += length
    except (IndexError, ZeroDivisionError):
        raise ValueError(f"{_BROKEN}: truncated, or copied from outside") from None
    if at != end:
        raise ValueError(f"{_BROKEN}: they are cut off")
