"""Reports the pandas objects among the user's global variables."""

import sys

from _belljar.protocol import guard
from _belljar.protocol.door import encode, send_bytes
from _belljar.protocol.inspecting import exact_str, mro_of, text_of, type_module
from _belljar.source import originals
from _belljar.values import unchanged, values

_COLUMNS = 200
_modules = sys.modules
# The types of most variables; compared by identity, because a class may define its own hash.
_USUAL = frozenset(
    map(id, (bool, bytes, dict, float, int, list, set, str, tuple, type, type(None), type(sys)))
)
_DEPTH = 6
_BYTES = 1 << 20
_NOT_TOLD = None, None
_TOLD = {}  # by name, how an object looked when it was last told, and the frame that told of it


def harvest(namespace, options, passes_over, remembers=False):
    """Send every pandas object in it, in namespace order; failures affect only the object.

    `passes_over` decides by name whether an object is left out. With `remembers`, an object that
    looks the same as after the previous run is not printed again.
    """
    told = dict(_TOLD) if remembers else {}
    _TOLD.clear()
    found = []
    for name, value in list(namespace.items()):
        kind = type(value)
        if id(kind) in _USUAL or not type_module(kind).startswith("pandas"):
            continue
        if type(name) is str and not name.startswith("__") and not passes_over(name):
            found.append((name, value))
    # Comparing options may run their own code.
    settings = guard.quietly(unchanged.settings, options) if remembers and found else None
    found.reverse()
    while found:
        looks = None
        if settings:
            what, same = "The pandas objects cannot be compared", []
            looks = guard.attempt(what, _pass, found, settings, told, same)
            if same:
                _send_all(same)
        if found:
            name, value = found.pop()
            guard.attempt(_failed(name), _send, name, value, options, looks)


def _failed(name):
    return f"The pandas object `{name}` cannot be shown"


def _pass(found, settings, told, same):
    """Move the last objects to `same`, with their frames, as long as they look the same.

    Returns how the next one looks.
    """
    while found:
        name, value = found[-1]
        known, frame = told.get(name, _NOT_TOLD)
        looks = unchanged.looks(value, settings, known)
        if looks is None or looks is not known:
            return looks
        found.pop()
        _TOLD[name] = told[name]
        same.append((name, frame))
    return None


def _send_all(same):
    """Send the frames as one, or each by itself if that is more than the host takes."""
    try:
        send_bytes(b"d", b"\n".join([frame for _, frame in same]))
    except (MemoryError, OSError, RuntimeError):
        for name, frame in same:
            guard.attempt(_failed(name), send_bytes, b"d", frame)


def _send(name, value, options, looks):
    frame = encode(_described(name, value, options))
    if looks is not None:
        _TOLD[name] = looks, frame
    send_bytes(b"d", frame)


def _described(name, value, options):
    originals.needed()
    text, truncated = text_of(value, options["max_repr_chars"])
    frame = {"name": name, "repr": text, "truncated": truncated}
    if options["table_rows"] is not None:
        found = table(value, options["table_rows"])
        if found is not None:
            frame["table"] = found
    return frame


def table(value, rows):
    """The columns, types, index and first rows of a frame or a series; None for other objects."""
    pandas = _modules.get("pandas")
    bases = mro_of(type(value))
    if pandas is None:
        return None
    if pandas.DataFrame in bases:
        frame = pandas.DataFrame(value)
    elif pandas.Series in bases:
        frame = pandas.Series(value).to_frame()
    else:
        return None
    head = frame.iloc[:rows, :_COLUMNS]
    converter = values.Converter(values.Limits(_DEPTH, max(rows, 1_000), _BYTES))
    columns = [values.arrays.column_values(head, index) for index in range(head.shape[1])]
    lines = zip(*columns, strict=True) if columns else ((),) * len(head)
    cells = [[converter.value(cell, 1) for cell in line] for line in lines]
    return {
        "columns": [converter.key(name) for name in head.columns],
        "dtypes": [exact_str(str(dtype)) for dtype in head.dtypes],
        "index": converter.value(head.index, 0),
        "shape": [int(size) for size in frame.shape],
        "rows": cells,
        "truncated": converter.truncated or head.shape != frame.shape,
    }
