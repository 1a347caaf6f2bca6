"""Writes a DataFrame as a Parquet file."""

import json
import operator
import zlib

from _belljar.formats import codecs, columnar, parquet_values, thrift
from _belljar.formats.parquet_columns import Prepared
from _belljar.formats.thrift import binary, fields, i32, i64, many

_CODECS = {
    None: 0, "none": 0, "uncompressed": 0, "snappy": 1, "gzip": 2, "zstd": 6, "lz4": 7, "lz4_raw": 7
}  # fmt: skip
_BY_HOST = {1: codecs.SNAPPY, 6: codecs.ZSTD, 7: codecs.LZ4_BLOCK}
_PLAIN, _RLE, _CODES = 0, 3, 8
_GROUP_ROWS = 1 << 20
_PAGE_ROWS = 1 << 17
# Larger pages are divided, unless they have one row.
_PAGE_BYTES = 1 << 24
_OPTIONAL = 1


class Content:
    """The data to write, checked before a file is touched."""

    def __init__(self, frame, compression, index, group_rows):
        codec = compression.lower() if isinstance(compression, str) else compression
        if codec not in _CODECS:
            raise ValueError(
                f"Parquet files cannot be compressed with {compression!r} here: "
                'take "snappy", "gzip", "zstd", "lz4" or None'
            )
        self._codec = _CODECS[codec]
        self._rows = len(frame)
        self._group_rows = _GROUP_ROWS if group_rows is None else operator.index(group_rows)
        if self._group_rows < 1:
            raise ValueError("a row group has one row at least")
        columns, notes = columnar.collect(frame, index, "a Parquet file")
        self._columns = [(name, Prepared(column)) for name, column in columns]
        self._extra = {"pandas": json.dumps(notes)}
        if frame.attrs:
            self._extra["PANDAS_ATTRS"] = json.dumps(frame.attrs)

    def write(self, file):
        """Write the file row group by row group."""
        out = _Output(file, self._codec)
        out.put(b"PAR1")
        groups = []
        for start in range(0, self._rows, self._group_rows):
            count = min(self._group_rows, self._rows - start)
            begin = out.at
            chunks = [out.chunk(*column, start, count) for column in self._columns]
            described = {1: many(chunks), 2: i64(out.at - begin), 3: i64(count)}
            groups.append(fields(described))
        footer = thrift.encode(self._footer(groups))
        out.put(footer + len(footer).to_bytes(4, "little") + b"PAR1")

    def _footer(self, groups):
        root = {4: binary("schema"), 5: i32(len(self._columns))}
        schema = [fields(root), *(fields(_element(*column)) for column in self._columns)]
        extra = [fields({1: binary(k), 2: binary(v)}) for k, v in self._extra.items()]
        return {
            1: i32(2), 2: many(schema), 3: i64(self._rows), 4: many(groups), 5: many(extra),
            6: binary("belljar"),
        }  # fmt: skip


def _element(name, prepared):
    width = i32(prepared.width) if prepared.kind == parquet_values.FIXED else None
    return {
        1: i32(prepared.kind), 2: width, 3: i32(_OPTIONAL), 4: binary(name), **prepared.meaning
    }  # fmt: skip


class _Output:
    """A file, the bytes written to it, and the codec."""

    def __init__(self, file, codec):
        self.at = 0
        self._file = file
        self._codec = codec
        self._plain = 0

    def put(self, data):
        self._file.write(data)
        self.at += len(data)

    def chunk(self, name, prepared, start, count):
        """Write one column of a row group. Returns its metadata."""
        begin, self._plain = self.at, 0
        part = prepared.part(start, count)
        if part.dictionary is not None:
            self._page(2, part.dictionary_size, part.dictionary, 7, {2: i32(_PLAIN)})
        first = self.at
        encoding = _PLAIN if part.dictionary is None else _CODES
        kinds = {2: i32(encoding), 3: i32(_RLE), 4: i32(_RLE)}
        at, size = 0, min(_PAGE_ROWS, count)
        while at < count:
            size = min(size, count - at)
            page = part.page(at, size)
            if len(page) > _PAGE_BYTES and size > 1:
                size //= 2
                continue
            self._page(0, size, page, 5, kinds)
            at += size
        described = {
            1: i32(prepared.kind),
            2: many([i32(encoding), i32(_RLE)] + [i32(_PLAIN)] * (encoding != _PLAIN)),
            3: many([binary(name)]), 4: i32(self._codec), 5: i64(count), 6: i64(self._plain),
            7: i64(self.at - begin), 9: i64(first),
            11: None if first == begin else i64(begin),
        }  # fmt: skip
        return fields({2: i64(begin), 3: fields(described)})

    def _page(self, kind, count, data, place, details):
        packed = self._compressed(data)
        header = {1: i32(kind), 2: i32(len(data)), 3: i32(len(packed))}
        header[place] = fields({1: i32(count), **details})
        header = thrift.encode(header)
        self._plain += len(header) + len(data)
        self.put(header)
        self.put(packed)

    def _compressed(self, data):
        if self._codec in _BY_HOST:
            return codecs.compress(_BY_HOST[self._codec], data)
        return zlib.compress(data, wbits=31) if self._codec == 2 else data
