"""Nested columns of Arrow data: lists, maps and structs, put together from their parts."""

import sys

from _belljar.formats import arrow_values, nested

_modules = sys.modules
_OFFSETS = {"list": "<i4", "large list": "<i8", "map": "<i4"}


def part(field, node, read):
    """The part of a column in a batch; `node` is as from `Batch.node`.

    `read` takes the meaning of flat values, their number, and their missing ones and buffers.
    """
    if field.dictionary is not None:
        raise ValueError(
            f"the Arrow data have categories inside of a nested column, {field.name!r}"
        )
    kind = field.meaning.layout
    if kind not in ("struct", "fixed list", *_OFFSETS):
        if field.meaning.kind is None:
            raise ValueError(f"{field.name!r} in the Arrow data is {field.meaning.detail}")
        valid, values = read(field.meaning, node.rows, (node.missing, node.buffers))
        return values, valid
    numpy = _modules["numpy"]
    valid = arrow_values.bits(node.buffers[0], node.rows) if node.missing else None
    below = list(zip(field.children, node.below, strict=True))
    if kind == "struct":
        names = [child.name for child in field.children]
        columns = [part(*child, read) for child in below]
        return nested.structs(names, columns, valid, node.rows)
    if len(below) != 1:
        raise ValueError(f"the list {field.name!r} of the Arrow data has other children")
    (child, inner), first, last = below[0], 0, 0
    counts = numpy.full(node.rows, field.meaning.detail if kind == "fixed list" else 0)
    if kind == "fixed list":
        last = node.rows * field.meaning.detail
    elif node.rows:
        offsets = arrow_values.fixed(node.buffers[1], _OFFSETS[kind], node.rows + 1)
        counts, first, last = numpy.diff(offsets), int(offsets[0]), int(offsets[-1])
    if first < 0 or last > inner.rows or (counts < 0).any():
        raise ValueError("the Arrow data have lists that begin or end where there is nothing")
    if kind != "map":
        return nested.lists(counts, valid, nested.cut(part(child, inner, read), first, last))
    if len(child.children) != 2 or child.meaning.layout != "struct":
        raise ValueError(f"the map {field.name!r} of the Arrow data has no keys and values")
    pairs = zip(child.children, inner.below, strict=True)
    keys, values = (nested.cut(part(*pair, read), first, last) for pair in pairs)
    return nested.maps(counts, valid, keys, values)
