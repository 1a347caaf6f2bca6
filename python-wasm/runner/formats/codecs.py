"""Decompression, compression and decoding by the host."""

import pickle
import sys

from _belljar.protocol import door

_modules = sys.modules
SNAPPY, LZ4_BLOCK, LZ4, ZSTD = b"s", b"r", b"f", b"z"
# The most that the host takes or makes in one call.
LIMIT = 64 << 20
_LZ4_MAGIC = b"\x04\x22\x4d\x18"


# Integers in runs, behind a byte with their width in bits; and packed differences.
HYBRID, DELTAS = b"h", b"i"
_ADDRESSES = 1 << 32


def decompress(codec, data, size):
    """Decompress to exactly `size` bytes."""
    if size == 0:
        return b""
    if size > LIMIT or len(data) > LIMIT:
        raise ValueError(
            f"the file has a compressed part of {max(size, len(data))} bytes, and "
            f"{LIMIT} are the most that can be decompressed: write it in smaller parts"
        )
    found = door.convert(b"d" + codec, size, data)
    if not found:
        raise ValueError("a compressed part of the file is broken, or has another length")
    return found


def compress(codec, data):
    """Compress at most `LIMIT` bytes."""
    if len(data) > LIMIT:
        raise ValueError(
            f"a part of {len(data)} bytes cannot be compressed, and {LIMIT} are the most: "
            "write the file without compression"
        )
    if not len(data):
        return _EMPTY[codec]
    made = door.convert(b"c" + codec, len(data), data)
    if not made:
        raise ValueError("a part of the file was not compressed: the run is being stopped")
    return made


def decode(form, count, *data):
    """Values that are found only one after the other, as the host replies."""
    found = door.convert(b"v" + form, count, *data) if count < _ADDRESSES else b""
    if not found:
        raise ValueError("the file has encoded values that are broken, or fewer than it says")
    return found


def binaries(count, is_text, data, lengths=None):
    """Values as `str` or `bytes`, each behind its length, or behind the lengths of all."""
    if count == 0:
        return _modules["numpy"].empty(0, "O")
    form = b"t" if is_text else b"b"
    if lengths is None:
        if count * 4 > len(data):
            raise ValueError("the file has fewer values than it says")
        found = decode(form, count, data)
    else:
        found = decode(form.upper(), count, lengths.astype("<u4"), data)
    values = pickle.loads(found)  # noqa: S301 (the host wrote it: a list of values)
    return _modules["numpy"].fromiter(values, "O", count)


# What the codecs make of nothing.
_EMPTY = {
    SNAPPY: b"\0", LZ4_BLOCK: b"\0", LZ4: _LZ4_MAGIC + b"\x60\x70\x73\0\0\0\0",
    ZSTD: b"\x28\xb5\x2f\xfd\x20\0\1\0\0",
}  # fmt: skip


def decompress_old_lz4(data, size):
    """Decompress what old writers of Parquet call LZ4: Hadoop's blocks, frames, or one block."""
    if data[:4] == _LZ4_MAGIC:
        return decompress(LZ4, data, size)
    blocks = _hadoop_blocks(data, size)
    if blocks is None:
        return decompress(LZ4_BLOCK, data, size)
    return b"".join([decompress(LZ4_BLOCK, *block) for block in blocks])


def _hadoop_blocks(data, size):
    """Blocks behind their sizes, with these sizes; None if the data are something else."""
    blocks, at, made = [], 0, 0
    while at < len(data):
        plain = int.from_bytes(data[at : at + 4], "big")
        packed = int.from_bytes(data[at + 4 : at + 8], "big")
        at += 8
        made += plain
        if packed == 0 or at + packed > len(data) or made > size:
            return None
        blocks.append((data[at : at + packed], plain))
        at += packed
    return blocks if made == size else None
