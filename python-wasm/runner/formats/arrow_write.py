"""Writes a DataFrame as a Feather file: Arrow's file format."""

import json
import operator

from _belljar.formats import codecs, columnar, flatbuffers
from _belljar.formats.arrow_columns import Body, Prepared
from _belljar.formats.flatbuffers import Vector

# Numbers of the codecs in the format, and their names for the host.
_CODECS = {
    None: (0, codecs.LZ4), "uncompressed": None, "lz4": (0, codecs.LZ4), "zstd": (1, codecs.ZSTD)
}  # fmt: skip
_BATCH_ROWS = 1 << 16
_V5 = ("<h", 4)
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_MAGIC = b"ARROW1"
_END = b"\xff\xff\xff\xff\0\0\0\0"


class Content:
    """The data to write, checked before a file is touched."""

    def __init__(self, frame, compression=None, chunksize=None):
        if compression not in _CODECS:
            raise ValueError(
                f"Feather files cannot be compressed with {compression!r} here: take "
                '"lz4", "zstd" or "uncompressed"'
            )
        self._codec = _CODECS[compression]
        self._rows = len(frame)
        self._batch_rows = _BATCH_ROWS if chunksize is None else operator.index(chunksize)
        if self._batch_rows < 1:
            raise ValueError("chunksize must be larger than 0")
        columns, notes = columnar.collect(frame, None, "a Feather file")
        notes["attributes"] = frame.attrs
        self._columns = [Prepared(*column, place) for place, column in enumerate(columns)]
        extra = {0: b"pandas", 1: json.dumps(notes).encode()}
        fields = Vector([column.field for column in self._columns])
        self._schema = {0: ("<h", 0), 1: fields, 2: Vector([extra])}

    def write(self, file):
        """Write the file batch by batch."""
        out = _Output(file)
        out.put(_MAGIC + b"\0\0")
        out.message(_SCHEMA, self._schema)
        dictionaries, batches = [], []
        for place, column in enumerate(self._columns):
            body = column.dictionary()
            if body is not None:
                body = self._packed(body)
                header = {0: ("<q", place), 1: self._batch(body)}
                dictionaries.append(out.message(_DICTIONARY, header, body))
        for start in range(0, self._rows, self._batch_rows):
            count = min(self._batch_rows, self._rows - start)
            body = Body(count)
            for column in self._columns:
                column.put(body, start, count)
            body = self._packed(body)
            batches.append(out.message(_BATCH, self._batch(body), body))
        out.put(_END)
        form = "<qi4xq"
        footer = flatbuffers.put(
            {0: _V5, 1: self._schema, 2: Vector(dictionaries, form), 3: Vector(batches, form)}
        )
        out.put(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _batch(self, body):
        codec = None if self._codec is None else {0: ("<B", self._codec[0])}
        return {
            0: ("<q", body.rows), 1: Vector(body.nodes, "<qq"), 2: Vector(body.buffers, "<qq"),
            3: codec,
        }  # fmt: skip

    def _packed(self, body):
        return body if self._codec is None else body.packed(self._codec[1])


class _Output:
    """A file, and the blocks written to it."""

    def __init__(self, file):
        self._file = file
        self._at = 0

    def put(self, data):
        self._file.write(data)
        self._at += len(data)

    def message(self, kind, header, body=None):
        """Write a message. Returns its block for the footer."""
        start, size = self._at, 0 if body is None else body.size
        data = flatbuffers.put({0: _V5, 1: ("<B", kind), 2: header, 3: ("<q", size)})
        self.put(_END[:4] + len(data).to_bytes(4, "little") + data)
        length = self._at - start
        for part in () if body is None else body.parts:
            self.put(part)
        return start, length, size
