"""numpy and pandas objects with their types: the part of `typed` for the two libraries.

Neither is imported here. The host reads an array's data from this memory, so columns are not copied
first.
"""

import sys

from _belljar.protocol.inspecting import exact_str, mro_of, rule_of, type_name

_SMALL = 4096  # bytes up to which an array travels beside its head
_UNITS = {"biu": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_CHUNK = 1 << 16
_modules = sys.modules


class TooLargeError(Exception):
    """The value does not fit."""


class UntypedError(Exception):
    """The value has no typed form after all."""


def rule_for(value):
    """The rule that encodes a numpy or pandas object, or None."""
    return rule_of(value, _NUMPY, _PANDAS)


def _numpy():
    return _modules["numpy"]


def _pandas():
    return _modules["pandas"]


def _untyped(*_):
    raise UntypedError


def _dtype(dtype):
    """The typed form of an array's type."""
    if dtype.names is None:
        return _plain_dtype(dtype)
    fields, size = [], 0
    for name in dtype.names:
        field = dtype.fields[name]
        if len(field) > 2 or field[1] != size or field[0].names or field[0].subdtype:
            _untyped()
        fields.append([exact_str(name), _plain_dtype(field[0])])
        size += field[0].itemsize
    if size != dtype.itemsize:
        _untyped()
    return fields


def _plain_dtype(dtype):
    kind, size = dtype.kind, dtype.itemsize
    known = kind in "mMUSVO" or any(kind in kinds and size in _UNITS[kinds] for kinds in _UNITS)
    if not known or dtype.subdtype or dtype.byteorder == ">":
        _untyped()
    return dtype.str


def _ndarray(encoder, value, depth):
    numpy = _numpy()
    array = numpy.asarray(value)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    dtype = array.dtype
    if dtype.kind == "O":
        instead = encoder.enter(value, depth)
        if instead is not None:
            return instead
        try:
            items = encoder.items(iter(_flat(array)), depth)
        finally:
            encoder.leave()
        return encoder.tagged("array", dtype="|O", shape=list(array.shape), items=items)
    form = _dtype(dtype)
    if not encoder.room(array.nbytes):
        return encoder.omitted(value, "large")
    more = {}
    if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
        more["order"] = "F"
    data = _data(encoder, numpy, array)
    return encoder.tagged("array", dtype=form, shape=list(array.shape), data=data, **more)


def _flat(array):
    # `tolist` of a whole object array would convert nested lists, too.
    return array.ravel(order="C").tolist() if array.ndim else [array.item()]


def _data(encoder, numpy, array):
    """The number of the buffer with an array's data, in its order."""
    if array.nbytes <= _SMALL:
        return encoder.bytes(array.tobytes(order="A"))
    size, count = array.nbytes, 1
    distance = 0
    if array.ndim == 1 and not array.flags.c_contiguous and array.strides[0] >= 0:
        size, count, distance = array.itemsize, len(array), array.strides[0]
    elif not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = numpy.ascontiguousarray(array)
    address = numpy.ndarray.__array_interface__.__get__(array)["data"][0]
    return encoder.memory(array, address, size, count, distance)


def _scalar(encoder, value, depth):
    numpy = _numpy()
    dtype = numpy.generic.dtype.__get__(value)
    if dtype.kind == "V":
        return _ndarray(encoder, numpy.asarray(value), depth)
    form = _dtype(dtype)
    if dtype.kind in "mM":
        plain = int(numpy.asarray(value).astype(dtype.newbyteorder("<")).view("<i8")[()])
    else:
        plain = numpy.generic.item(value)
    return encoder.tagged("scalar", dtype=form, value=encoder.value(plain, depth))


def _column(encoder, values, depth):
    """The typed form of the values of a series or an index."""
    numpy, pandas = _numpy(), _pandas()
    dtype = values.dtype
    form = {"dtype": encoder.text(exact_str(str(dtype)))}
    encoder.charge(_COLUMN)

    def put(array):
        found = _ndarray(encoder, array, depth)
        if found["$"] != "array":
            raise TooLargeError
        return found

    if isinstance(dtype, numpy.dtype):
        return {**form, "values": put(values.to_numpy())}
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = values.array.codes
        categories = _index(encoder, dtype.categories, depth)
        ordered = bool(dtype.ordered)
        return {**form, "codes": put(codes), "categories": categories, "ordered": ordered}
    if isinstance(dtype, (pandas.DatetimeTZDtype, pandas.PeriodDtype)):
        return {**form, "values": put(values.array.asi8)}
    if isinstance(dtype, pandas.StringDtype):
        return {**form, **_text(encoder, numpy, values)}
    base = getattr(dtype, "numpy_dtype", None)
    if base is not None and type_name(type(values.array)) in _MASKED:
        mask = values.array.isna()
        held = values.array.to_numpy(dtype=base, na_value=base.type(0))
        return {**form, "values": put(held), "mask": put(mask)}
    return {**form, "values": put(values.astype(object).to_numpy())}


def _text(encoder, numpy, values):
    missing = numpy.asarray(values.isna())
    strings = values.tolist()
    if missing.any():
        gone = missing.tolist()
        strings = ["" if is_gone else one for one, is_gone in zip(strings, gone, strict=True)]
    whole = "".join(strings)
    # In chunks if characters have different sizes: an object for each string is slow.
    if whole.isascii():
        sizes = list(map(len, strings))
        data = whole.encode()
    else:
        sizes, pieces = [], []
        for start in range(0, len(strings), _CHUNK):
            chunk = [one.encode() for one in strings[start : start + _CHUNK]]
            sizes += map(len, chunk)
            pieces.append(b"".join(chunk))
        data = b"".join(pieces)
    if len(data) >= 1 << 32:
        raise TooLargeError
    ends = numpy.cumsum(numpy.asarray(sizes, dtype="<u8")).astype("<u4")
    held = numpy.frombuffer(data, dtype="u1")
    parts = {"ends": ends, "missing": missing.astype("u1"), "data": held}
    for part in parts.values():
        if not encoder.room(part.nbytes):
            raise TooLargeError
    return {name: _data(encoder, numpy, part) for name, part in parts.items()}


def _index(encoder, value, depth):
    pandas = _pandas()
    bases = mro_of(type(value))
    if pandas.MultiIndex in bases:
        return encoder.tagged(
            "index",
            levels=[_index(encoder, level, depth) for level in value.levels],
            codes=[_ndarray(encoder, codes, depth) for codes in value.codes],
            names=[encoder.value(name, depth + 1) for name in value.names],
        )
    name = encoder.value(value.name, depth + 1)
    if pandas.RangeIndex in bases:
        span = [int(value.start), int(value.stop), int(value.step)]
        return encoder.tagged("index", range=span, name=name)
    return encoder.tagged("index", labels=_column(encoder, value, depth), name=name)


def _index_rule(encoder, value, depth):
    return _table(encoder, value, depth, lambda: _index(encoder, value, depth))


def _series(encoder, value, depth):
    series = _pandas().Series(value)

    def parts():
        return encoder.tagged(
            "series",
            name=encoder.value(series.name, depth + 1),
            index=_index(encoder, series.index, depth),
            values=_column(encoder, series, depth),
        )

    return _table(encoder, value, depth, parts)


def _frame(encoder, value, depth):
    frame = _pandas().DataFrame(value)

    def parts():
        columns = range(frame.shape[1])
        encoder.charge(_COLUMN * len(columns))
        return encoder.tagged(
            "dataframe",
            columns=_index(encoder, frame.columns, depth),
            index=_index(encoder, frame.index, depth),
            data=[_column(encoder, frame.iloc[:, at], depth) for at in columns],
        )

    return _table(encoder, value, depth, parts)


def _categorical(encoder, value, depth):
    values = _pandas().Series(value)

    def parts():
        return encoder.tagged("categorical", values=_column(encoder, values, depth))

    return _table(encoder, value, depth, parts)


def _table(encoder, value, depth, parts):
    """The result of `parts`; objects in a column may refer back to the table."""
    instead = encoder.enter(value, depth)
    if instead is not None:
        return instead
    try:
        return parts()
    finally:
        encoder.leave()


def _timestamp(encoder, value, _depth):
    count = int(value.asm8.view("<i8"))
    zone = None if value.tz is None else encoder.text(exact_str(str(value.tz)))
    return encoder.tagged("timestamp", value=count, unit=exact_str(value.unit), zone=zone)


def _timedelta(encoder, value, depth):
    return _scalar(encoder, value.asm8, depth)


def _missing(tag):
    return lambda encoder, _value, _depth: encoder.tagged(tag)


_COLUMN = 40  # bytes of punctuation counted for a column
_MASKED = ("IntegerArray", "FloatingArray", "BooleanArray")
_NUMPY = {
    # Before its base class, which would lose the mask.
    "MaskedArray": _untyped,
    "ndarray": _ndarray,
    "generic": _scalar,
}
_PANDAS = {
    "DataFrame": _frame,
    "Series": _series,
    "Index": _index_rule,
    "Categorical": _categorical,
    "NaTType": _missing("nat"),
    "NAType": _missing("na"),
    "Timestamp": _timestamp,
    "Timedelta": _timedelta,
    "Period": _untyped,
    "Interval": _untyped,
}
