"""The pages of one column of a Parquet file: found, decompressed and decoded."""

import sys
import zlib

from _belljar.formats import codecs, parquet_values, thrift

_modules = sys.modules
_DATA, _INDEX, _DICTIONARY, _DATA_2 = range(4)
_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA, _DELTA_LENGTH, _DELTA_TEXT, _CODES, _SPLIT = (
    0, 2, 3, 5, 6, 7, 8, 9,
)  # fmt: skip
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_GZIP, _OLD_LZ4 = 2, 5
_BY_HOST = {1: codecs.SNAPPY, 6: codecs.ZSTD, 7: codecs.LZ4_BLOCK}
_PAGE_LIMIT = 1 << 31


class Chunk:
    """A column's part in a row group: its dictionary, if it has one, and its pages."""

    __slots__ = ("dictionary", "pages")

    def __init__(self, dictionary, pages):
        self.dictionary = dictionary
        self.pages = pages


class Page:
    """The valid values of a page, or indices into the dictionary, and the mask of valid values.

    `valid` is `None` if all are valid; nested columns have their levels of definition and
    repetition there instead.
    """

    __slots__ = ("are_codes", "count", "valid", "values")

    def __init__(self, values, are_codes, valid, count):
        self.values = values
        self.are_codes = are_codes
        self.valid = valid
        self.count = count


def check_codec(codec, name):
    if codec in (0, _GZIP, _OLD_LZ4) or codec in _BY_HOST:
        return
    codec = _CODECS[codec] if 0 <= codec < len(_CODECS) else codec
    raise ValueError(
        f"column {name!r} of the Parquet file is compressed with {codec}, which cannot be read "
        'here: write the file with compression="snappy" or "gzip"'
    )


def _decompress(data, codec, size):
    if not 0 <= size < _PAGE_LIMIT:
        raise ValueError(f"a page of the Parquet file says that it has {size} bytes")
    if codec == 0:
        return data
    if codec in _BY_HOST:
        return codecs.decompress(_BY_HOST[codec], data, size)
    if codec == _OLD_LZ4:
        return codecs.decompress_old_lz4(data, size)
    try:
        # One byte more, to detect data that is longer than declared.
        found = zlib.decompressobj(31).decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"a page of the Parquet file cannot be decompressed: {error}") from None
    if len(found) != size:
        raise ValueError("a page of the Parquet file has another length than it says")
    return found


class Column:
    """The position and the type of a column's values, from the file's metadata."""

    __slots__ = (
        "codec", "count", "is_nested", "is_text", "kind", "levels", "name", "repeats", "width",
    )  # fmt: skip

    def __init__(self, leaf, levels, codec, count, repeats=None):
        self.is_nested = repeats is not None
        self.repeats = repeats or 0
        self.name = leaf.name
        self.kind = leaf.kind
        self.width = leaf.width
        self.is_text = leaf.meaning[0] == "string"
        self.levels = levels  # the most of a value: 1 where flat values may be missing, else 0
        self.codec = codec
        self.count = count

    def read(self, data):
        """Decode the pages in `data` to a chunk."""
        data, at, left = memoryview(data), 0, self.count
        dictionary, pages = None, []
        while left > 0:
            reader = thrift.Reader(data, at)
            header = reader.struct()
            size = _number(header, 3)
            at = reader.at + size
            body = data[reader.at : at]
            if size < 0 or len(body) != size:
                raise ValueError(f"column {self.name!r} of the Parquet file is cut off")
            kind = header.get(1)
            if kind == _DICTIONARY:
                body = _decompress(body, self.codec, _number(header, 2))
                count = _number(_part(header, 7), 1)
                if count < 0 or dictionary is not None:
                    raise ValueError(f"column {self.name!r} has no dictionary, or more than one")
                dictionary = parquet_values.plain(body, self.kind, self.width, count, self.is_text)
            elif kind in (_DATA, _DATA_2):
                page = self._page(header, body, dictionary, left)
                if page is not None:
                    pages.append(page)
                    left -= page.count
        return Chunk(dictionary, pages)

    def _page(self, header, body, dictionary, left):
        """A page of data; None if it is empty."""
        is_first = header[1] == _DATA
        page = _part(header, 5 if is_first else 8)
        count, size = _number(page, 1), _number(header, 2)
        if not 0 < count <= left:
            # An empty page is useless, and could repeat forever.
            if count == 0:
                return None
            raise ValueError(f"a page of column {self.name!r} has {count} of {left} values")
        repeats = levels = None
        if is_first:
            encoding = _number(page, 2)
            body = memoryview(_decompress(body, self.codec, size))
            if self.repeats:
                repeats, body = self._levels(page.get(4), body, self.repeats, count)
            if self.levels:
                levels, body = self._levels(page.get(3), body, self.levels, count)
        else:
            encoding = _number(page, 4)
            before, length = _number(page, 6), _number(page, 5)
            if before < 0 or length < 0 or before + length > len(body):
                raise ValueError(f"a page of column {self.name!r} is cut off")
            if self.repeats:
                width = self.repeats.bit_length()
                repeats = parquet_values.hybrid(body[:before], width, count)
            if self.levels:
                width = self.levels.bit_length()
                levels = parquet_values.hybrid(body[before : before + length], width, count)
            body = body[before + length :]
            if page.get(7, True):
                body = memoryview(_decompress(body, self.codec, size - before - length))
        valid = None if levels is None else levels == self.levels
        there = count
        if valid is not None:
            there = int(_modules["numpy"].count_nonzero(valid))
            valid = None if there == count else valid
        values = self._values(encoding, body, there, dictionary)
        if self.is_nested:
            zeros = parquet_values.hybrid(b"", 0, count)
            valid = zeros if levels is None else levels, zeros if repeats is None else repeats
        return Page(values, encoding in (_PLAIN_DICTIONARY, _CODES), valid, count)

    def _levels(self, encoding, body, most, count):
        """Levels before the values of a page, and what follows them."""
        if encoding != _RLE:
            raise ValueError(f"column {self.name!r} marks what is missing in an old form")
        end = 4 + int.from_bytes(body[:4], "little")
        return parquet_values.hybrid(body[4:end], most.bit_length(), count), body[end:]

    def _values(self, encoding, body, count, dictionary):
        kind, width = self.kind, self.width
        if encoding == _PLAIN:
            return parquet_values.plain(body, kind, width, count, self.is_text)
        if encoding in (_PLAIN_DICTIONARY, _CODES):
            if dictionary is None:
                raise ValueError(f"column {self.name!r} of the Parquet file lacks its dictionary")
            bits = body[0] if len(body) else 0
            codes = parquet_values.hybrid(body[1:], bits, count)
            if count and int(codes.max()) >= len(dictionary):
                raise ValueError(f"column {self.name!r} refers to missing dictionary entries")
            # As numpy's indices are in 32 bits.
            return codes.view("i4")
        if encoding == _RLE and kind == parquet_values.BOOLEAN:
            return parquet_values.hybrid(body[4:], 1, count).astype(bool)
        if encoding == _DELTA and kind in (parquet_values.INT32, parquet_values.INT64):
            values = parquet_values.deltas(body, count)[0]
            return values.astype("<i4") if kind == parquet_values.INT32 else values
        if encoding == _DELTA_LENGTH and kind == parquet_values.BYTE_ARRAY:
            return parquet_values.delta_texts(body, count, self.is_text)
        if encoding == _DELTA_TEXT and kind == parquet_values.BYTE_ARRAY:
            return parquet_values.delta_prefixed(body, count, self.is_text)
        if encoding == _SPLIT and (kind in parquet_values.PLAIN or kind == parquet_values.FIXED):
            return parquet_values.split(body, kind, width, count)
        raise ValueError(
            f"column {self.name!r} of the Parquet file has values in the encoding {encoding}, "
            "which cannot be read here"
        )


def _part(header, number):
    part = header.get(number)
    if not isinstance(part, dict):
        raise ValueError("a page of the Parquet file has no header of its kind")
    return part


def _number(header, number):
    value = header.get(number)
    if type(value) is not int:
        raise ValueError("a page of the Parquet file has a header that is not complete")
    return value
