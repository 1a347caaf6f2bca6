"""numpy and pandas objects as plain values: the part of `values` for the two libraries.

Neither is imported here. A class belongs to one of them if it, or a base class, claims so and has a
name from the tables below; the library's own functions then reject false claims. Subclasses are
first converted to the plain class, bypassing their overrides.
"""

import sys

from _belljar.protocol.inspecting import exact_str, rule_of, type_module, type_name

_modules = sys.modules


def rule_for(value):
    """The rule that converts a numpy or pandas object to plain values, or None."""
    return rule_of(value, _NUMPY, _PANDAS)


def is_missing(value):
    """Whether it is pandas' `NaT` or `NA`."""
    cls = type(value)
    return type_name(cls) in ("NaTType", "NAType") and type_module(cls).startswith("pandas")


def _numpy():
    return _modules["numpy"]


def _pandas():
    return _modules["pandas"]


def _scalar(converter, value, depth):
    numpy = _numpy()
    kind = numpy.generic.dtype.__get__(value).kind
    if kind == "M":
        return _instant(converter, numpy, value)
    if kind == "m":
        return _duration(converter, numpy, value)
    if kind == "V":
        return _array(converter, numpy.asarray(value), depth)
    plain = numpy.generic.item(value)
    if isinstance(plain, numpy.generic):  # a long double has no exact Python form
        plain = complex(plain) if kind == "c" else float(plain)
    return converter.value(plain, depth)


def _instant(converter, numpy, value):
    if numpy.isnat(value):
        return None
    return converter.text(exact_str(numpy.datetime_as_string(value)))


def _duration(converter, numpy, value):
    if numpy.isnat(value):
        return None
    if numpy.datetime_data(value.dtype)[0] in ("Y", "M", "generic"):
        return converter.text(str(value))
    return converter.number(float(value / numpy.timedelta64(1, "s")))


def _array(converter, value, depth):
    array = _numpy().asarray(value)
    if array.ndim == 0:
        return _element(converter, array, depth)
    return converter.sequence(_rows(array), value, depth)


def _rows(array):
    if array.ndim > 1 or array.dtype.kind in "MmV":
        for index in range(len(array)):
            yield array[index]
        return
    step = 4096
    for start in range(0, len(array), step):
        yield from array[start : start + step].tolist()


def _element(converter, array, depth):
    if array.dtype.kind == "V" and array.dtype.names:
        pairs = [(name, array[name]) for name in array.dtype.names]
        return converter.mapping(pairs, array, depth)
    element = array[()]
    if array.dtype.kind == "V":
        return converter.value(element.tobytes(), depth)
    return converter.value(element, depth)


def _masked(converter, value, depth):
    return converter.value(_numpy().ma.MaskedArray.tolist(value), depth)


def _frame(converter, value, depth):
    frame = _pandas().DataFrame(value)
    head = frame.head(converter.limits.max_items + 1)
    names = [converter.key(name) for name in frame.columns]
    columns = [column_values(head, index) for index in range(len(names))]
    rows = (Row(names, row) for row in zip(*columns, strict=True))
    return converter.sequence(rows, value, depth)


class Row:
    """A record of a frame during conversion."""

    __slots__ = ("names", "values")

    def __init__(self, names, values):
        self.names = names
        self.values = values


def row(converter, value, depth):
    return converter.mapping(zip(value.names, value.values, strict=True), value, depth)


def column_values(frame, index):
    """The values of one column as a list of Python objects."""
    return _listed(frame.iloc[:, index])


def _listed(values):
    """A series or an index as a list; missing values become `None`, except NaN."""
    listed = values.tolist()
    if getattr(values.dtype, "kind", "O") not in "biufc":
        missing = values.isna()
        if missing.any():
            return [None if gone else v for v, gone in zip(listed, missing.tolist(), strict=True)]
    return listed


def _series(converter, value, depth):
    series = _pandas().Series(value).head(converter.limits.max_items + 1)
    return converter.sequence(iter(_listed(series)), value, depth)


def _index(converter, value, depth):
    index = _pandas().Index(value)[: converter.limits.max_items + 1]
    # A label with several levels is a tuple, and never missing.
    listed = index.tolist() if index.nlevels > 1 else _listed(index)
    return converter.sequence(iter(listed), value, depth)


def _extension(converter, value, depth):
    part = value[: converter.limits.max_items + 1]
    return converter.sequence(iter(list(part)), value, depth)


def _missing(_converter, _value, _depth):
    return None


def _timestamp(converter, value, _depth):
    if is_missing(value):
        return None
    return converter.text(exact_str(_pandas().Timestamp.isoformat(value)))


def _timedelta(converter, value, _depth):
    if is_missing(value):
        return None
    return converter.number(_pandas().Timedelta.total_seconds(value))


def _as_text(converter, value, _depth):
    return converter.text(exact_str(str(value)))


_NUMPY = {
    "ndarray": _array,
    "MaskedArray": _masked,
    "generic": _scalar,
}
_PANDAS = {
    "DataFrame": _frame,
    "Series": _series,
    "Index": _index,
    "ExtensionArray": _extension,
    "NaTType": _missing,
    "NAType": _missing,
    "Timestamp": _timestamp,
    "Timedelta": _timedelta,
    "Period": _as_text,
    "Interval": _as_text,
}
