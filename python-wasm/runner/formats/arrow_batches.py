"""The messages of Arrow data, in a file or in a stream: a schema, and batches of buffers."""

import io

from _belljar.formats import codecs, flatbuffers
from _belljar.formats.arrow_schema import Schema, check_version

_MAGIC, _OLD_MAGIC = b"ARROW1", b"FEA1"
_CONTINUED = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_V5 = 4
_CODECS = (codecs.LZ4, codecs.ZSTD)
_MAX_ROWS = (1 << 31) - 1


class Content:
    """Arrow data: a schema, batches of rows, and their dictionaries."""

    def __init__(self, file):
        if not file.seekable():
            file = io.BytesIO(file.read())
        self._source = _Source(file)
        self.batches = []
        # By number, if they are among the messages.
        self._dictionaries = {}
        self._turn = 0
        head = self._source.take(0, min(8, self._source.size))
        if head[:4] == _OLD_MAGIC:
            raise ValueError(
                "a Feather file of version 1, which cannot be read here: write it with version=2"
            )
        if head[:6] == _MAGIC:
            self._read_file()
        else:
            self._read_stream()
        self.rows = sum(batch.rows for batch in self.batches)
        if self.rows > _MAX_ROWS:
            raise ValueError(f"the Arrow data say that they have {self.rows} rows")

    def _read_file(self):
        source = self._source
        tail = source.take(max(source.size - 10, 0), min(10, source.size))
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > source.size - 18:
            raise ValueError("not an Arrow file: it does not end like one, and may be cut off")
        footer = flatbuffers.root(source.take(source.size - 10 - length, length))
        check_version(footer.number(0, "<h"))
        self.schema = Schema(footer.table(1), length)
        blocks = footer.structs(2, "<qi4xq"), footer.structs(3, "<qi4xq")
        if sum(size + body for part in blocks for _, size, body in part) > source.size:
            raise ValueError("the parts of the Arrow file are longer than it is")
        for at, _, _ in (*blocks[0], *blocks[1]):
            message = source.message(at)
            if message is None or message.kind == _SCHEMA:
                raise ValueError("the Arrow file has no batch where it says that one is")
            self._add(message)

    def _read_stream(self):
        message = self._source.message(0) if self._source.size >= 8 else None
        if message is None or message.kind != _SCHEMA:
            raise ValueError("not Arrow data: neither a Feather or Arrow file nor a stream")
        self.schema = Schema(message.header, message.size)
        while (message := self._source.message(message.end)) is not None:
            self._add(message)

    def _add(self, message):
        self._turn += 1
        if message.kind == _DICTIONARY:
            header = message.header
            batch = Batch(self._source, message, header.table(1), self._turn)
            places = self._dictionaries.setdefault(header.number(0, "<q"), [])
            places.append((self._turn, header.flag(2), batch))
        elif message.kind == _BATCH:
            self.batches.append(Batch(self._source, message, message.header, self._turn))
        else:
            raise ValueError(f"the Arrow data have a message of the kind {message.kind}")

    def dictionary(self, number, batch):
        """The batches of the dictionary that a batch of rows refers to: the first, and additions.

        Without a batch of rows, those of the last dictionary.
        """
        places = self._dictionaries.get(number, ())
        end = len(places)
        if batch is None and end == 0:
            return []
        while batch is not None and end > 0 and places[end - 1][0] > batch.turn:
            end -= 1
        if end == 0:
            raise ValueError("the Arrow data lack the dictionary of a column")
        start = end - 1
        while start > 0 and places[start][1]:
            start -= 1
        return [place[2] for place in places[start:end]]


class _Source:
    """A file and its length."""

    def __init__(self, file):
        self._file = file
        self.size = file.seek(0, 2)

    def take(self, at, size):
        if at < 0 or size < 0 or at + size > self.size:
            raise ValueError("the Arrow data are truncated, or have invalid offsets")
        self._file.seek(at)
        found = self._file.read(size)
        if len(found) != size:
            raise ValueError("the Arrow data are cut off")
        return found

    def message(self, at):
        """The message at a position; None at the end of the file or the end marker."""
        if at == self.size:
            return None
        start = at + 4
        length = int.from_bytes(self.take(at, 4), "little")
        if length == _CONTINUED:
            start = at + 8
            length = int.from_bytes(self.take(at + 4, 4), "little")
        if length == 0:
            return None
        return _Message(at, start + length, flatbuffers.root(self.take(start, length)), length)


class _Message:
    __slots__ = ("at", "body", "end", "header", "is_old", "kind", "size")

    def __init__(self, at, body, table, size):
        version, length = table.number(0, "<h"), table.number(3, "<q")
        check_version(version)
        self.is_old = version < _V5
        self.kind, self.header = table.number(1, "<B"), table.table(2)
        if self.header is None or length < 0:
            raise ValueError("a message of the Arrow data is not complete")
        self.at, self.body, self.end, self.size = at, body, body + length, size


class Batch:
    """The rows of each column, or the values of a dictionary: read on demand."""

    def __init__(self, source, message, table, turn):
        if table is None:
            raise ValueError("a batch of the Arrow data is not complete")
        self.turn = turn
        self.is_old = message.is_old
        self.rows = table.number(0, "<q")
        if not 0 <= self.rows <= _MAX_ROWS:
            raise ValueError(f"a batch of the Arrow data says that it has {self.rows} rows")
        self._source = source
        self._message = message
        self._nodes = table.structs(1, "<qq")
        self._buffers = table.structs(2, "<qq")
        self._variadic = iter(table.structs(4, "<q"))
        self._codec = _codec(table.table(3))
        self._parts = None
        # Of each node: its number of buffers and of nodes directly below.
        self._shapes = []

    def variadic(self):
        """The number of buffers of the next column of views, beyond the first two."""
        count = next(self._variadic, (0,))[0]
        if not 0 <= count <= len(self._buffers):
            raise ValueError("a batch of the Arrow data has a number of buffers that is not valid")
        return count

    def part(self, fields, place):
        """The number of missing values and the buffers of the next column."""
        node = self.node(fields, place)
        return node.missing, node.buffers

    def node(self, fields, place):
        """The next column."""
        if self._parts is None:
            self._parts = self._layout(fields)
        node, first = self._parts[place]
        parts = zip(self._shapes[node:], self._nodes[node:], strict=False)
        found = _Node(self, parts, iter(self._buffers[first:]))
        if found.rows != self.rows:
            raise ValueError("a batch of the Arrow data contradicts itself about its rows")
        return found

    def _layout(self, fields):
        """For each column its first node and its first buffer."""
        parts, buffer = [], 0
        for field in fields:
            parts.append((len(self._shapes), buffer))
            waiting = [field]
            while waiting:
                count, below = waiting.pop().shape(self)
                waiting += reversed(below)
                self._shapes.append((count, len(below)))
                buffer += count
        return parts

    def buffer(self, at, size):
        message = self._message
        if at < 0 or size < 0 or message.body + at + size > message.end:
            raise ValueError("a buffer of the Arrow data is outside of its batch")
        data = self._source.take(message.body + at, size)
        if self._codec is None or not size:
            return data
        length = int.from_bytes(data[:8], "little", signed=True)
        data = memoryview(data)[8:]
        if length == -1:
            return data
        if length < 0:
            raise ValueError(f"a buffer of the Arrow data says that it has {length} bytes")
        return codecs.decompress(self._codec, data, length)


class _Node:
    """A column in a batch, or a nested part of one: its buffers, and the parts below."""

    __slots__ = ("below", "buffers", "missing", "rows")

    def __init__(self, batch, parts, buffers):
        try:
            (count, below), (self.rows, self.missing) = next(parts)
            self.buffers = [batch.buffer(*next(buffers)) for _ in range(count)]
        except StopIteration:
            raise ValueError(
                "a batch of the Arrow data has fewer columns than the schema"
            ) from None
        if not 0 <= self.missing <= self.rows <= _MAX_ROWS:
            raise ValueError("a batch of the Arrow data contradicts itself about its rows")
        self.below = [_Node(batch, parts, buffers) for _ in range(below)]


def _codec(table):
    if table is None:
        return None
    codec = table.number(0, "<B")
    if codec >= len(_CODECS) or table.number(1, "<B") != 0:
        raise ValueError(f"the Arrow data are compressed in a way that is not known ({codec})")
    return _CODECS[codec]
