"""Lists, maps and structs as pandas has them from pyarrow: arrays, lists of pairs, dicts.

A part of a nested column is a tuple: the values that are there, and the mask of them, `None` if all
are.
"""

import sys

from _belljar.formats import reframing

_modules = sys.modules


def lists(counts, valid, part):
    """A part of arrays of these lengths, cut from another part."""
    values, there = part
    values = reframing.typed(values, there, None, False)
    return _objects(_cut(counts, values), valid)


def cut(part, first, last):
    """The part between two rows."""
    values, valid = part
    if valid is None:
        return values[first:last], None
    begin, count = int(valid[:first].sum()), int(valid[first:last].sum())
    return values[begin : begin + count], valid[first:last]


def joined(parts):
    """Parts of one column."""
    return _modules["numpy"].concatenate(parts) if parts else reframing.objects([])


def maps(counts, valid, keys, values):
    """A part of lists of pairs."""
    pairs = list(zip(_plain(*keys), _plain(*values), strict=True))
    return _objects(_cut(counts, pairs), valid)


def structs(names, columns, valid, rows):
    """A part of dicts, one for each row."""
    columns = [_plain(*column) for column in columns]
    if any(len(column) != rows for column in columns):
        raise ValueError("a struct of the file has columns of different lengths")
    found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return _objects(found or [{} for _ in range(rows)], valid)


def _objects(rows, valid):
    if valid is not None:
        rows = [row if flag else None for row, flag in zip(rows, valid.tolist(), strict=True)]
    return reframing.objects(rows), None


def _cut(counts, values):
    ends = counts.cumsum(dtype="i8").tolist()
    if (ends[-1] if ends else 0) != len(values):
        raise ValueError("a nested column of the file contradicts itself about its lengths")
    return [values[at:end] for at, end in zip([0, *ends], ends, strict=False)]


def _plain(values, valid):
    """Python's values, None for missing ones."""
    numpy, pandas = _modules["numpy"], _modules["pandas"]
    kind = values.dtype.kind
    if kind in "mM" and numpy.datetime_data(values.dtype)[0] == "ns":
        index = pandas.DatetimeIndex if kind == "M" else pandas.TimedeltaIndex
        values = list(index(values))
    else:
        values = values.tolist()
    if valid is None:
        return values
    there = iter(values)
    return [next(there) if flag else None for flag in valid.tolist()]
