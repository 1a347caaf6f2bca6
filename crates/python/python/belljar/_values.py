"""Conversion of library objects to and from the tagged form of ``docs/reference/values.md``.

The native half converts built-in types. Decoded data comes from a guest: nothing is evaluated or
unpickled, and no name from it reaches a function that opens files.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from ._belljar import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    Parts = dict[str, Any]


class Opaque:
    """A placeholder for an object that has no typed form, or was left out: its class and its
    ``repr``, as claimed by the guest, and the ``reason`` if it was left out.
    """

    __slots__ = ("class_", "reason", "repr")

    def __init__(self, class_: str, repr: str, reason: str | None = None) -> None:
        self.class_ = class_
        self.repr = repr
        self.reason = reason

    def __repr__(self) -> str:
        reason = f", reason={self.reason!r}" if self.reason else ""
        return f"Opaque({self.class_!r}, {self.repr!r}{reason})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Opaque):
            return NotImplemented
        return (self.class_, self.repr, self.reason) == (other.class_, other.repr, other.reason)

    def __hash__(self) -> int:
        return hash((self.class_, self.repr, self.reason))


class Tagged:
    """A value of a library that is not installed here: its tag, and its parts in the tagged form.
    Array data has ``tobytes()``.
    """

    __slots__ = ("parts", "tag")

    def __init__(self, tag: str, parts: dict[str, Any]) -> None:
        self.tag = tag
        self.parts = parts

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={held!r}" for name, held in self.parts.items())
        return f"Tagged({self.tag!r}, {shown})"


# From a guest


def decode(parts: Parts) -> Any:
    """Converts a tagged value to an object."""
    tag = parts.pop("$")
    try:
        return _DECODERS[tag](parts)
    except ImportError:
        return Tagged(tag, parts)


def _opaque(parts: Parts) -> Opaque:
    return Opaque(parts["class"], parts["repr"], parts.get("reason"))


def _decimal(parts: Parts) -> Any:
    from decimal import Decimal

    return Decimal(parts["value"])


def _fraction(parts: Parts) -> Any:
    from fractions import Fraction

    return Fraction(parts["value"])


def _date(parts: Parts) -> Any:
    from datetime import date

    return date.fromisoformat(parts["value"])


def _datetime(parts: Parts) -> Any:
    from datetime import datetime

    return _in_zone(datetime.fromisoformat(parts["value"]), parts)


def _time(parts: Parts) -> Any:
    from datetime import time

    return _in_zone(time.fromisoformat(parts["value"]), parts)


def _in_zone(moment: Any, parts: Parts) -> Any:
    if parts.get("zone") is not None:
        moment = moment.replace(tzinfo=_zone(parts["zone"], moment.tzinfo))
    return moment.replace(fold=1) if parts.get("fold") else moment


_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*", re.ASCII)
_OFFSET = re.compile(r"UTC([+-])(\d\d):(\d\d)", re.ASCII)


def _zone(name: str, otherwise: Any) -> Any:
    import datetime
    import zoneinfo

    offset = _OFFSET.fullmatch(name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        delta = datetime.timedelta(minutes=-minutes if offset[1] == "-" else minutes)
        return datetime.timezone(delta)
    if not _ZONE.fullmatch(name):
        return otherwise
    if name == "UTC":
        return datetime.timezone.utc
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return otherwise


def _timedelta(parts: Parts) -> Any:
    from datetime import timedelta

    return timedelta(*parts["value"])


def _uuid(parts: Parts) -> Any:
    from uuid import UUID

    return UUID(hex=parts["value"])


def _path(parts: Parts) -> Any:
    # A path in the sandbox, not on this machine.
    from pathlib import PurePosixPath

    return PurePosixPath(parts["value"])


def _dtype(form: Any) -> Any:
    import numpy

    dtype = numpy.dtype(form)
    if dtype.hasobject:
        raise ValueError("objects in bytes")
    return dtype


# Python's types for numpy's kinds of scalars.
_SCALARS: dict[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (int,),
    "u": (int,),
    "f": (float,),
    "c": (complex,),
    "U": (str,),
    "S": (bytes,),
}


def _scalar(parts: Parts) -> Any:
    try:
        import numpy
    except ImportError:
        # Python has these kinds too.
        if type(parts["value"]) in _SCALARS.get(parts["dtype"].lstrip("<>|=")[:1], ()):
            return parts["value"]
        raise
    dtype = _dtype(parts["dtype"])
    if dtype.kind in "mM":
        return numpy.asarray(parts["value"], dtype="<i8").view(dtype)[()]
    return numpy.asarray(parts["value"], dtype=dtype)[()]


def _array(parts: Parts) -> Any:
    import numpy

    shape, order = parts["shape"], parts["order"]
    if "items" in parts:
        items: Any = numpy.empty(len(parts["items"]), dtype=object)
        for at, item in enumerate(parts["items"]):
            items[at] = item
        return items.reshape(shape, order=order)
    dtype = _dtype(parts["dtype"])
    if dtype.itemsize == 0 or len(parts["data"]) == 0:
        return numpy.zeros(shape, dtype)
    flat = numpy.asarray(parts["data"])
    # Bytes other than 0 and 1 are invalid for bool. All other types are used without a copy.
    flat = flat != 0 if dtype.kind == "b" else flat.view(dtype)
    return flat.reshape(shape, order=order)


_COLUMN_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_\[\]:\- ]*", re.ASCII)
_ZONED = re.compile(r"datetime64\[(s|ms|us|ns), ([^\]]+)\]", re.ASCII)


def _column(parts: Parts) -> Any:
    import numpy
    import pandas

    name = parts["dtype"]
    if "codes" in parts:
        categories = parts["categories"]
        return pandas.Categorical.from_codes(parts["codes"], categories, bool(parts["ordered"]))
    if "text" in parts:
        dtype: Any = name if name in ("str", "string") else object
        try:
            return pandas.array(parts["text"], dtype=dtype)
        except TypeError:
            # Before version 3 this type does not exist.
            return pandas.array(parts["text"], dtype=object)
    values = parts["values"]
    if "mask" in parts:
        kind = {"b": "BooleanArray", "f": "FloatingArray"}.get(values.dtype.kind, "IntegerArray")
        return getattr(pandas.arrays, kind)(values, parts["mask"])
    zoned = _ZONED.fullmatch(name)
    if zoned:
        zone = _zone(zoned[2], None)
        if zone is None:
            raise ValueError("a time zone that is not known")
        moments = pandas.DatetimeIndex(values.view(f"M8[{zoned[1]}]"))
        return moments.tz_localize("UTC").tz_convert(zone).array
    if values.dtype != object and not name.startswith("period["):
        return values
    if not _COLUMN_TYPE.fullmatch(name):
        raise ValueError("a type of columns that is not known")
    found = pandas.api.types.pandas_dtype(name)
    if isinstance(found, numpy.dtype):
        return values
    if isinstance(found, pandas.PeriodDtype):
        return pandas.PeriodIndex.from_ordinals(values, freq=found.freq).array
    return pandas.array(values.tolist(), dtype=found)


def _index(parts: Parts) -> Any:
    import pandas

    if "levels" in parts:
        return pandas.MultiIndex(parts["levels"], parts["codes"], names=parts["names"])
    if "range" in parts:
        return pandas.RangeIndex(*parts["range"], name=parts["name"])
    labels = _column(parts["labels"])
    return pandas.Index(labels, dtype=labels.dtype, name=parts["name"])


def _series(parts: Parts) -> Any:
    import pandas

    return pandas.Series(_column(parts["values"]), index=parts["index"], name=parts["name"])


def _frame(parts: Parts) -> Any:
    import pandas

    columns = {at: _column(held) for at, held in enumerate(parts["data"])}
    frame = pandas.DataFrame(columns, index=parts["index"], copy=False)
    frame.columns = parts["columns"]
    return frame


def _timestamp(parts: Parts) -> Any:
    import numpy
    import pandas

    moment = pandas.Timestamp(numpy.datetime64(parts["value"], parts["unit"]))
    if parts.get("zone") is None:
        return moment
    zone = _zone(parts["zone"], None)
    if zone is None:
        raise ValueError("a time zone that is not known")
    return moment.tz_localize("UTC").tz_convert(zone)


def _missing(name: str) -> Callable[[Parts], Any]:
    def read(_parts: Parts) -> Any:
        import pandas

        return getattr(pandas, name)

    return read


_DECODERS: dict[str, Callable[[Parts], Any]] = {
    "opaque": _opaque,
    "decimal": _decimal,
    "fraction": _fraction,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "timedelta": _timedelta,
    "uuid": _uuid,
    "path": _path,
    "scalar": _scalar,
    "array": _array,
    "index": _index,
    "series": _series,
    "dataframe": _frame,
    "categorical": lambda parts: _column(parts["values"]),
    "timestamp": _timestamp,
    "nat": _missing("NaT"),
    "na": _missing("NA"),
}


# To a guest


def encode(value: Any) -> Parts | None:
    """Converts an object that is not built in to its tagged form, or returns None."""
    for kind in type(value).__mro__:
        rule = _ENCODERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if rule is not None:
            return rule(value)
    return None


def _text(tag: str, text: Callable[[Any], str] = str) -> Callable[[Any], Parts]:
    return lambda value: {"$": tag, "value": text(value)}


def _encode_moment(tag: str) -> Callable[[Any], Parts]:
    def rule(value: Any) -> Parts:
        parts: Parts = {"$": tag}
        zone = value.tzinfo
        offset = value.utcoffset()
        if zone is not None:
            if offset is not None and offset.microseconds:
                raise TypeError("a time zone that is no whole number of seconds from UTC")
            name = getattr(zone, "key", None)
            if name is not None:
                parts["zone"] = name
        if value.fold:
            parts["fold"] = True
        plain = value.replace(tzinfo=None).isoformat(
            timespec="microseconds" if value.microsecond else "seconds"
        )
        return {**parts, "value": plain + _offset(offset)}

    return rule


def _offset(offset: Any) -> str:
    if offset is None:
        return ""
    seconds = offset.days * 86_400 + offset.seconds
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return text + (f":{seconds % 60:02}" if seconds % 60 else "")


def _encode_array(value: Any) -> Parts:
    import numpy

    array = numpy.asarray(value)
    dtype = array.dtype
    parts: Parts = {"$": "array", "shape": array.shape, "order": "C"}
    if dtype.kind == "O":
        flat = array.ravel(order="C")
        return {**parts, "dtype": "|O", "items": [flat[at] for at in range(flat.size)]}
    native = dtype.newbyteorder("<")
    if native.names is None:
        parts["dtype"] = native.str
    else:
        if native.itemsize != sum(native[name].itemsize for name in native.names):
            native = numpy.dtype([(name, native[name]) for name in native.names])
        parts["dtype"] = [(name, native[name].str) for name in native.names]
    if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
        parts["order"] = "F"
    # The only copy: into memory that becomes the guest's.
    buffer = Buffer(array.size * native.itemsize)
    if len(buffer):
        held = numpy.asarray(buffer).view(native).reshape(array.shape, order=parts["order"])
        held[...] = array
    return {**parts, "data": buffer}


def _encode_scalar(value: Any) -> Parts:
    dtype = value.dtype
    if dtype.kind == "V":
        return _encode_array(value)
    held = dtype.newbyteorder("<").str
    if dtype.kind in "mM":
        import numpy

        return {"$": "scalar", "dtype": held, "value": int(numpy.asarray(value).view("i8")[()])}
    return {"$": "scalar", "dtype": held, "value": value.item()}


def _no_form(value: Any) -> Parts:
    raise TypeError(f"an object of class {type(value).__qualname__} has no typed form")


def _encode_column(values: Any) -> Parts:
    import numpy
    import pandas

    dtype = values.dtype
    if hasattr(dtype, "pyarrow_dtype"):
        values = pandas.Series(values.to_numpy())
        dtype = values.dtype
    parts: Parts = {"dtype": str(dtype)}
    if isinstance(dtype, numpy.dtype):
        return {**parts, "values": _encode_array(values.to_numpy())}
    if isinstance(dtype, pandas.CategoricalDtype):
        return {
            **parts,
            "codes": _encode_array(values.array.codes),
            "categories": _encode_index(dtype.categories),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, (pandas.DatetimeTZDtype, pandas.PeriodDtype)):
        return {**parts, "values": _encode_array(values.array.asi8)}
    if isinstance(dtype, pandas.StringDtype):
        missing = values.isna().tolist()
        strings = zip(values.tolist(), missing, strict=True)
        return {**parts, "text": [None if gone else str(one) for one, gone in strings]}
    base = getattr(dtype, "numpy_dtype", None)
    if base is not None and hasattr(values.array, "isna"):
        held = values.array.to_numpy(dtype=base, na_value=base.type(0))
        return {**parts, "values": _encode_array(held), "mask": _encode_array(values.array.isna())}
    return {**parts, "values": _encode_array(values.astype(object).to_numpy())}


def _encode_index(value: Any) -> Parts:
    import pandas

    if isinstance(value, pandas.MultiIndex):
        return {
            "$": "index",
            "levels": [_encode_index(level) for level in value.levels],
            "codes": [_encode_array(codes) for codes in value.codes],
            "names": list(value.names),
        }
    if isinstance(value, pandas.RangeIndex):
        span = (value.start, value.stop, value.step)
        return {"$": "index", "range": span, "name": value.name}
    return {"$": "index", "labels": _encode_column(value), "name": value.name}


def _encode_series(value: Any) -> Parts:
    return {
        "$": "series",
        "name": value.name,
        "index": _encode_index(value.index),
        "values": _encode_column(value),
    }


def _encode_frame(value: Any) -> Parts:
    return {
        "$": "dataframe",
        "columns": _encode_index(value.columns),
        "index": _encode_index(value.index),
        "data": [_encode_column(value.iloc[:, at]) for at in range(value.shape[1])],
    }


def _encode_categorical(value: Any) -> Parts:
    return {"$": "categorical", "values": _encode_column(sys.modules["pandas"].Series(value))}


def _encode_timestamp(value: Any) -> Parts:
    zone = None if value.tz is None else str(value.tz)
    count = int(value.asm8.view("i8"))
    return {"$": "timestamp", "value": count, "unit": value.unit, "zone": zone}


_ENCODERS: dict[tuple[str, str], Callable[[Any], Parts]] = {
    ("datetime", "datetime"): _encode_moment("datetime"),
    ("datetime", "date"): _text("date", lambda value: value.isoformat()),
    ("datetime", "time"): _encode_moment("time"),
    ("datetime", "timedelta"): lambda value: {
        "$": "timedelta",
        "value": [value.days, value.seconds, value.microseconds],
    },
    ("decimal", "Decimal"): _text("decimal"),
    ("fractions", "Fraction"): _text("fraction"),
    ("uuid", "UUID"): _text("uuid", lambda value: value.hex),
    ("pathlib", "PurePath"): _text("path", lambda value: value.as_posix()),
    ("builtins", "memoryview"): lambda value: {"$": "bytes", "data": value.tobytes()},
    ("belljar", "Opaque"): _no_form,
    ("numpy", "MaskedArray"): _no_form,
    ("numpy", "ndarray"): _encode_array,
    ("numpy", "generic"): _encode_scalar,
    ("pandas", "DataFrame"): _encode_frame,
    ("pandas", "Series"): _encode_series,
    ("pandas", "Index"): _encode_index,
    ("pandas", "Categorical"): _encode_categorical,
    ("pandas", "NaTType"): lambda _value: {"$": "nat"},
    ("pandas", "NAType"): lambda _value: {"$": "na"},
    ("pandas", "Timestamp"): _encode_timestamp,
    ("pandas", "Timedelta"): lambda value: _encode_scalar(value.asm8),
    ("pandas", "Period"): _no_form,
    ("pandas", "Interval"): _no_form,
}
