"""Converts typed values to plain JSON, as specified in ``docs/reference/values.md``."""

from __future__ import annotations

import base64
import sys
from typing import Any

_MAX_INT, _MIN_INT = 2**64 - 1, -(2**63)


def plain(value: Any) -> Any:
    """Converts an object to plain JSON."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    rule = _RULES.get((kind.__module__.partition(".")[0], kind.__name__))
    if rule is not None:
        return rule(value)
    for base in kind.__mro__:
        rule = _RULES.get((base.__module__.partition(".")[0], base.__name__))
        if rule is not None:
            return rule(value)
    return repr(value)


def _int(value: Any) -> Any:
    value = int(value)
    return value if _MIN_INT <= value <= _MAX_INT else _digits(value)


def _digits(value: int) -> str:
    # Near Python's default limit for converting integers to decimal.
    return str(value) if value.bit_length() < 13_900 else hex(value)


def _float(value: Any) -> Any:
    value = float(value)
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _list(value: Any) -> list[Any]:
    return [plain(item) for item in value]


def _set(value: Any) -> list[Any]:
    numbers, texts, others = [], [], []
    for item in value:
        if isinstance(item, (int, float)):
            numbers.append(item)
        elif isinstance(item, str):
            texts.append(item)
        else:
            others.append(item)
    others.sort(key=repr)
    return _list([*sorted(numbers), *sorted(texts), *others])


def _dict(value: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, held in value.items():
        name = text = _key(key)
        number = 2
        while name in result:
            name, number = f"{text} ({number})", number + 1
        result[name] = plain(held)
    return result


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None:
        return "null"
    if key is True or key is False:
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return str(plain(key))
    if hasattr(key, "isoformat"):
        return str(key.isoformat())
    return repr(key)


def _bytes(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


def _array(value: Any) -> Any:
    import numpy

    if value.dtype.names is not None:
        rows = [{name: plain(row[name]) for name in value.dtype.names} for row in value.ravel()]
        if value.ndim == 0:
            return rows[0]
        return numpy.array([*rows, None], dtype=object)[:-1].reshape(value.shape).tolist()
    if value.dtype.kind in "mM":
        flat = numpy.empty(value.size, dtype=object)
        for at, item in enumerate(value.ravel()):
            flat[at] = _scalar(item)
        return flat.reshape(value.shape).tolist()
    return plain(value.tolist())


def _scalar(value: Any) -> Any:
    import numpy

    if numpy.isnat(value) if value.dtype.kind in "mM" else False:
        return None
    if value.dtype.kind == "M":
        return str(value)
    if value.dtype.kind == "m":
        return float(value / numpy.timedelta64(1, "ns")) / 1e9
    return plain(value.item())


def _frame(value: Any) -> list[dict[str, Any]]:
    columns = [_column(value.iloc[:, at]) for at in range(value.shape[1])]
    labels: dict[str, Any] = {}
    for at, label in enumerate(value.columns):
        text = name = _key(label)
        number = 2
        while name in labels:
            name, number = f"{text} ({number})", number + 1
        labels[name] = at
    names = list(labels)
    if not columns:
        return [{} for _ in value.index]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column(value: Any) -> list[Any]:
    pandas = sys.modules["pandas"]
    is_float = getattr(value.dtype, "kind", "O") == "f" and not hasattr(value.dtype, "numpy_dtype")
    if is_float:
        return [_float(item) for item in value.tolist()]
    return [None if _is_missing(pandas, item) else plain(item) for item in value.tolist()]


def _is_missing(pandas: Any, item: Any) -> bool:
    return item is pandas.NaT or item is pandas.NA or (isinstance(item, float) and item != item)


def _multi(value: Any) -> list[Any]:
    return [_list(row) for row in value.tolist()]


def _isoformat(value: Any) -> str:
    return str(value.isoformat())


_RULES: dict[tuple[str, str], Any] = {
    ("builtins", "int"): _int,
    ("builtins", "float"): _float,
    ("builtins", "complex"): str,
    ("builtins", "str"): str,
    ("builtins", "list"): _list,
    ("builtins", "tuple"): _list,
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): _set,
    ("builtins", "dict"): _dict,
    ("builtins", "bytes"): _bytes,
    ("decimal", "Decimal"): str,
    ("fractions", "Fraction"): str,
    ("datetime", "datetime"): _isoformat,
    ("datetime", "date"): _isoformat,
    ("datetime", "time"): _isoformat,
    ("datetime", "timedelta"): lambda value: value.total_seconds(),
    ("uuid", "UUID"): str,
    ("pathlib", "PurePath"): str,
    ("numpy", "ndarray"): _array,
    ("numpy", "generic"): _scalar,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _column,
    ("pandas", "MultiIndex"): _multi,
    ("pandas", "Index"): lambda value: _column(value.to_series()),
    ("pandas", "Categorical"): lambda value: _list(value.tolist()),
    ("pandas", "Timestamp"): _isoformat,
    ("pandas", "Timedelta"): lambda value: value.total_seconds(),
    ("pandas", "NaTType"): lambda _value: None,
    ("pandas", "NAType"): lambda _value: None,
    ("belljar", "Opaque"): lambda value: value.repr,
}
