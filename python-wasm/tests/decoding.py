"""What the host decodes, value by value, in Python: the model for its decoders in Rust."""

import pickle


class _Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise IndexError
        self.at += size
        return part

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def varint(self):
        value = 0
        for shift in range(0, 64, 7):
            byte = self.number(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise IndexError

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


def _unpacked(data, width):
    """The integers of `width` bits in groups of eight; bits behind the end are zero."""
    groups = (int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width))
    return [group >> width * k & (1 << width) - 1 for group in groups for k in range(8)]


def _hybrid(data, count):
    reader, values = _Reader(data), []
    width = reader.number(1)
    if not 0 < width <= 32:
        raise IndexError
    while len(values) < count:
        head = reader.varint()
        if head & 1:
            size = min((head >> 1) * width, len(data) - reader.at)
            values += _unpacked(reader.take(size), width)
        else:
            values += [reader.number((width + 7) // 8)] * min(head >> 1, count - len(values))
    return b"".join(value.to_bytes(4, "little") for value in values[:count])


def _deltas(data, count):
    reader = _Reader(data)
    block, parts, total, value = *(reader.varint() for _ in range(3)), reader.zigzag()
    if total != count or not 0 < block <= 1 << 20 or not parts or block % (parts * 8):
        raise IndexError
    size, values = block // parts, [value]
    while len(values) < count:
        least = reader.zigzag()
        for width in reader.take(parts):
            needed = (min(size, count - len(values)) * width + 7) // 8
            if len(values) < count:
                if width > 64 or len(data) - reader.at < needed:
                    raise IndexError
                part = reader.take(min(size * width // 8, len(data) - reader.at))
                for more in _unpacked(part, width)[:size] if width else [0] * size:
                    values.append(values[-1] + least + more)
    whole = b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in values[:count])
    return whole + reader.at.to_bytes(4, "little")


def _binaries(form, data, count):
    reader, lengths, values = _Reader(data), _Reader(data), []
    if form.isupper():
        reader.take(4 * count)
    else:
        lengths = reader
    for _ in range(count):
        value = reader.take(lengths.number(4))
        values.append(value.decode() if form in b"tT" else value)
    return pickle.dumps(values, 3)


def decoded(form, count, data):
    """The host's reply; empty for data that are not valid."""
    assert count, "the host refuses this"
    try:
        if form in b"hi":
            return {b"h": _hybrid, b"i": _deltas}[form](data, count)
        assert count <= len(data) // 4, "the host refuses this"
        return _binaries(form, data, count)
    except (IndexError, UnicodeDecodeError):
        return b""
