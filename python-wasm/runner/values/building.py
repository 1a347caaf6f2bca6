"""Builds objects from the typed form that the host sends, the format written by `typed`.

Nothing is evaluated or unpickled: each tag has its own reader, lengths and types are checked before
memory is allocated, and unknown tags are rejected.
"""

import datetime
import decimal
import fractions
import pathlib
import struct
import uuid

from _belljar.protocol.door import decode as _json

_DEPTH = 120
_length = struct.Struct("<I").unpack_from


def decode(data):
    """The value in a payload."""
    (length,) = _length(data, 0)
    view = memoryview(data)
    buffers, value = _json(bytes(view[4 : 4 + length]))
    return Builder(buffers, view[4 + length :]).value(value)


class Builder:
    """One value during conversion."""

    def __init__(self, buffers, rest):
        self._buffers = buffers
        self._rest = rest

    def value(self, plain, depth=0):
        kind = type(plain)
        if kind is list:
            if depth > _DEPTH:
                raise ValueError("a value that is nested too deep")
            return [self.value(one, depth + 1) for one in plain]
        if kind is not dict:
            return plain
        if depth > _DEPTH:
            raise ValueError("a value that is nested too deep")
        if "$" not in plain:
            return {key: self.value(one, depth + 1) for key, one in plain.items()}
        read = _TAGS.get(plain["$"])
        if read is None:
            raise ValueError(f"a tag that is not known: {plain['$']!r}")
        return read(self, plain, depth + 1)

    def data(self, number):
        """The bytes of a buffer."""
        kind, at, size, count, _ = self._buffers[number]
        if type(number) is not int or number < 0 or kind != 0 or count != 1:
            raise ValueError("a buffer that is not there")
        found = self._rest[at : at + size]
        if at < 0 or len(found) != size:
            raise ValueError("a buffer that is not there")
        return found


def _int(_builder, plain, _depth):
    return int(plain["value"], 16)


def _float(_builder, plain, _depth):
    return float(plain["value"])


def _complex(builder, plain, depth):
    return complex(*builder.value(plain["value"], depth))


def _bytes(builder, plain, _depth):
    return bytes(builder.data(plain["data"]))


def _items(kind):
    return lambda builder, plain, depth: kind(builder.value(plain["items"], depth))


def _of_text(kind):
    return lambda _builder, plain, _depth: kind(plain["value"])


def _uuid(_builder, plain, _depth):
    return uuid.UUID(hex=plain["value"])


def _moment(kind):
    def read(_builder, plain, _depth):
        found = kind.fromisoformat(plain["value"])
        name = plain.get("zone")
        if name is not None:
            found = found.replace(tzinfo=_zone(name, found.tzinfo))
        return found.replace(fold=1) if plain.get("fold") else found

    return read


def _zone(name, otherwise):
    try:
        import zoneinfo

        return zoneinfo.ZoneInfo(name)
    except Exception:
        return otherwise


def _timedelta(_builder, plain, _depth):
    return datetime.timedelta(*plain["value"])


def _dtype(numpy, form):
    dtype = numpy.dtype([tuple(field) for field in form] if type(form) is list else form)
    if dtype.hasobject:
        raise ValueError("objects in bytes")
    return dtype


def _scalar(builder, plain, depth):
    import numpy

    dtype, value = _dtype(numpy, plain["dtype"]), builder.value(plain["value"], depth)
    if dtype.kind in "mM":
        return numpy.asarray(value, dtype="<i8").view(dtype)[()]
    return numpy.asarray(value, dtype=dtype)[()]


def _array(builder, plain, depth):
    import numpy

    if plain["dtype"] == "|O":
        found = numpy.empty(len(plain["items"]), dtype=object)
        for at, one in enumerate(plain["items"]):
            found[at] = builder.value(one, depth)
        return found.reshape(plain["shape"])
    dtype = _dtype(numpy, plain["dtype"])
    data = builder.data(plain["data"])
    order = plain.get("order", "C")
    if dtype.itemsize == 0:
        return numpy.zeros(plain["shape"], dtype)
    flat = numpy.frombuffer(data, dtype="u1" if dtype.kind == "b" else dtype)
    # A copy, which the code may change; bytes other than 0 and 1 are invalid for bool.
    flat = flat != 0 if dtype.kind == "b" else flat.copy()
    return flat.reshape(plain["shape"], order=order)


def _column(builder, plain, depth):
    import numpy
    import pandas

    name = plain["dtype"]
    if "codes" in plain:
        return pandas.Categorical.from_codes(
            builder.value(plain["codes"], depth),
            categories=builder.value(plain["categories"], depth),
            ordered=bool(plain["ordered"]),
        )
    if "ends" in plain:
        return pandas.array(_strings(builder, numpy, plain), dtype=_string_type(pandas, name))
    values = builder.value(plain["values"], depth)
    if "mask" in plain:
        kind = {"b": "BooleanArray", "f": "FloatingArray"}.get(values.dtype.kind, "IntegerArray")
        return getattr(pandas.arrays, kind)(values, builder.value(plain["mask"], depth))
    dtype = pandas.api.types.pandas_dtype(name)
    if isinstance(dtype, numpy.dtype):
        return values
    if isinstance(dtype, pandas.DatetimeTZDtype):
        moments = pandas.DatetimeIndex(values.view(f"M8[{dtype.unit}]"))
        return moments.tz_localize("UTC").tz_convert(dtype.tz).array
    if isinstance(dtype, pandas.PeriodDtype):
        return pandas.PeriodIndex.from_ordinals(values, freq=dtype.freq).array
    return pandas.array(values.tolist(), dtype=dtype)


def _string_type(pandas, name):
    dtype = pandas.api.types.pandas_dtype(name)
    return dtype if isinstance(dtype, pandas.StringDtype) else object


def _strings(builder, numpy, plain):
    ends = numpy.frombuffer(builder.data(plain["ends"]), dtype="<u4").tolist()
    missing = bytes(builder.data(plain["missing"]))
    data = bytes(builder.data(plain["data"]))
    starts = [0, *ends[:-1]]
    text = data.decode()
    if text.isascii():
        found = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    else:
        found = [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    if any(missing):
        found = [None if gone else one for one, gone in zip(found, missing, strict=True)]
    return found


def _index(builder, plain, depth):
    import pandas

    if "levels" in plain:
        return pandas.MultiIndex(
            levels=builder.value(plain["levels"], depth),
            codes=builder.value(plain["codes"], depth),
            names=builder.value(plain["names"], depth),
        )
    name = builder.value(plain["name"], depth)
    if "range" in plain:
        return pandas.RangeIndex(*plain["range"], name=name)
    labels = _column(builder, plain["labels"], depth)
    return pandas.Index(labels, dtype=labels.dtype, name=name)


def _series(builder, plain, depth):
    import pandas

    index = builder.value(plain["index"], depth)
    values = _column(builder, plain["values"], depth)
    return pandas.Series(values, index=index, name=builder.value(plain["name"], depth))


def _frame(builder, plain, depth):
    import pandas

    index = builder.value(plain["index"], depth)
    columns = {at: _column(builder, one, depth) for at, one in enumerate(plain["data"])}
    frame = pandas.DataFrame(columns, index=index, copy=False)
    frame.columns = builder.value(plain["columns"], depth)
    return frame


def _categorical(builder, plain, depth):
    return _column(builder, plain["values"], depth)


def _timestamp(_builder, plain, _depth):
    import numpy
    import pandas

    moment = pandas.Timestamp(numpy.datetime64(plain["value"], plain["unit"]))
    zone = plain.get("zone")
    return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)


def _pandas_constant(name):
    def read(_builder, _plain, _depth):
        import pandas

        return getattr(pandas, name)

    return read


def _pairs(builder, plain, depth):
    return {builder.value(key, depth): builder.value(value, depth) for key, value in plain["items"]}


_TAGS = {
    "int": _int,
    "float": _float,
    "complex": _complex,
    "bytes": _bytes,
    "tuple": _items(tuple),
    "set": _items(set),
    "frozenset": _items(frozenset),
    "dict": _pairs,
    "decimal": _of_text(decimal.Decimal),
    "fraction": _of_text(fractions.Fraction),
    "date": _of_text(datetime.date.fromisoformat),
    "time": _moment(datetime.time),
    "datetime": _moment(datetime.datetime),
    "timedelta": _timedelta,
    "uuid": _uuid,
    "path": _of_text(pathlib.Path),
    "scalar": _scalar,
    "array": _array,
    "timestamp": _timestamp,
    "nat": _pandas_constant("NaT"),
    "na": _pandas_constant("NA"),
    "index": _index,
    "series": _series,
    "dataframe": _frame,
    "categorical": _categorical,
}
