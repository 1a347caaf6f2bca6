"""Converts Arrow buffers to numpy arrays and Python objects.

The bytes are untrusted. The count comes from the batch, and the buffers must contain that many
values; anything else is a `ValueError`.
"""

import struct
import sys

from _belljar.formats import codecs, reframing

_modules = sys.modules
_TOO_SHORT = "a buffer of the Arrow data is shorter than its values"
_INLINE = 12
_view = struct.Struct("<iiii")


def bits(data, count):
    """`count` booleans, the first in the lowest bit."""
    numpy = _modules["numpy"]
    flags = fixed(data, "u1", (count + 7) // 8)
    return numpy.unpackbits(flags, count=count, bitorder="little").view(bool)


def fixed(data, dtype, count):
    numpy = _modules["numpy"]
    dtype = numpy.dtype(dtype)
    if count == 0:
        return numpy.empty(0, dtype)
    return numpy.frombuffer(taken(data, count * dtype.itemsize), dtype)


def taken(data, size):
    if len(data) < size:
        raise ValueError(_TOO_SHORT)
    return memoryview(data)[:size]


def binary(offsets, data, dtype, valid, count, is_text):
    """Values between offsets, as `bytes` or `str`."""
    if count == 0:
        return reframing.objects([])
    offsets = fixed(offsets, dtype, count + 1)
    first, last = int(offsets[0]), int(offsets[-1])
    if first < 0 or last > len(data) or bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError("the Arrow data have values that begin or end where there is nothing")
    data = memoryview(data)[first:last]
    try:
        return codecs.binaries(count, is_text, data, offsets[1:] - offsets[:-1])
    except ValueError:
        if valid is None or not is_text:
            raise
        return _decoded_singly(bytes(data), offsets - offsets.dtype.type(first), valid)


def _decoded_singly(data, offsets, valid):
    # Missing values may have any bytes.
    offsets = offsets.tolist()
    parts = zip(valid.tolist(), offsets, offsets[1:], strict=False)
    return reframing.objects([data[a:b].decode() if is_here else "" for is_here, a, b in parts])


def views(data, buffers, valid, count, is_text):
    """Values of which short ones are inline in their views, and longer ones in other buffers."""
    data = taken(data, 16 * count)
    buffers = [bytes(buffer) for buffer in buffers]
    flags = [True] * count if valid is None else valid.tolist()
    values = []
    for at, (flag, (size, _, which, start)) in enumerate(
        zip(flags, _view.iter_unpack(data), strict=True)
    ):
        if not flag:
            values.append(None)
            continue
        if 0 <= size <= _INLINE:
            value = bytes(data[16 * at + 4 : 16 * at + 4 + size])
        else:
            if not (0 <= which < len(buffers) and size > 0 and start >= 0):
                raise ValueError("the Arrow data have a view outside of their buffers")
            value = buffers[which][start : start + size]
            if len(value) != size:
                raise ValueError("the Arrow data have a view outside of their buffers")
        values.append(value.decode() if is_text else value)
    return reframing.objects(values)


def meant(values, meaning):
    """The values that a layout stands for."""
    kind, detail = meaning.kind, meaning.detail
    if kind == "date":
        return values.astype(f"M8[{detail}]").astype("M8[D]").astype(object)
    if kind == "time":
        return reframing.times(values, detail)
    if kind == "decimal":
        return reframing.decimals(
            [int.from_bytes(v, "little", signed=True) for v in _cut(values)], detail
        )
    if kind == "bytes" and meaning.layout == "fixed":
        return reframing.objects(_cut(values))
    return values


def _cut(values):
    data, width = values.tobytes(), values.dtype.itemsize
    return [data[at : at + width] for at in range(0, len(data), width)]
