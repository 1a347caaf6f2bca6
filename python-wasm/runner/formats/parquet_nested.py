"""Nested columns of a Parquet file, put together from the levels of their leaves.

Each value of a leaf has a definition level, which counts the optional and repeated fields that are
there on the way to it, and a repetition level, which tells the list that it continues.
"""

import sys

from _belljar.formats import nested
from _belljar.formats.parquet_schema import Leaf, number, text

_modules = sys.modules
_OPTIONAL, _REPEATED = 1, 2
_MAX_DEPTH = 32


class Node:
    """A field of the schema, with its levels; without children a leaf."""

    __slots__ = ("children", "definition", "kind", "leaf", "levels", "name", "path", "repetition")

    def __init__(self, elements, above=None):
        element = next(elements, None)
        if element is None:
            raise ValueError("the schema of the Parquet file is cut off")
        self.name = text(element, 4)
        how = element.get(3)
        path, repetition, definition = above or ((), 0, 0)
        if len(path) > _MAX_DEPTH:
            raise ValueError("the schema of the Parquet file is nested too deep")
        self.path = (*path, self.name.encode())
        self.definition = definition + (how in (_OPTIONAL, _REPEATED))
        self.repetition = repetition + (how == _REPEATED)
        inner = self.path, self.repetition, self.definition
        self.children = [Node(elements, inner) for _ in range(number(element, 5, 0))]
        self.kind = "leaf" if not self.children else _kind(element)
        self.leaf = None if self.children else Leaf(element, is_nested=True)
        if self.leaf is not None and self.leaf.meaning is None:
            raise ValueError(f"column {self.name!r} of the Parquet file has no type")
        # Of a leaf: definition and repetition levels, and the values.
        self.levels = None

    def leaves(self):
        """The leaves below, or the node itself."""
        return [leaf for child in self.children for leaf in child.leaves()] or [self]


def _kind(element):
    logical, converted = element.get(10), element.get(6)
    which = next(iter(logical), 0) if type(logical) is dict else 0
    if which == 3 or converted == 3:
        return "list"
    return "map" if which == 2 or converted in (1, 2) else "struct"


def column(node, rows):
    """The rows of a top-level node whose leaves have their levels."""
    values, _ = _repeated(node, 0, 0) if node.repetition else _part(node, 0, 0)
    if len(values) != rows:
        raise ValueError(f"column {node.name!r} of the Parquet file has {len(values)} rows")
    return values


def _places(node, repetition, definition):
    """The first leaf, and the places in its levels at which values of the node begin."""
    leaf = node.leaves()[0]
    definitions, repetitions, _ = leaf.levels
    begins = (repetitions <= repetition) & (definitions >= definition)
    return leaf, _modules["numpy"].flatnonzero(begins)


def _part(node, repetition, definition):
    """The values of a node in all places where the repeated field around it has an element.

    The levels are those of that field.
    """
    leaf, places = _places(node, repetition, definition)
    definitions, _, values = leaf.levels
    if node is leaf:
        valid = definitions[places] == node.definition
        if int(valid.sum()) != len(values):
            raise ValueError(f"column {node.name!r} of the Parquet file has other levels")
        return values, None if valid.all() else valid
    valid = definitions[places] >= node.definition
    valid = None if valid.all() else valid
    inside = node.children[0]
    is_one = len(node.children) == 1 and inside.repetition > repetition
    if node.kind == "map" and is_one and len(inside.children) == 2:
        counts = _counts(inside, repetition, places)
        keys, values = (_part(c, inside.repetition, inside.definition) for c in inside.children)
        return nested.maps(counts, valid, keys, values)
    if node.kind != "struct" and is_one:
        counts = _counts(inside, repetition, places)
        return nested.lists(counts, valid, _elements(node, inside))
    names = [child.name for child in node.children]
    columns = [_child(child, repetition, definition) for child in node.children]
    return nested.structs(names, columns, valid, len(places))


def _child(child, repetition, definition):
    if child.repetition > repetition:
        return _repeated(child, repetition, definition)
    return _part(child, repetition, definition)


def _repeated(node, repetition, definition):
    """Lists of a repeated field that no list is around."""
    _, places = _places(node, repetition, definition)
    counts = _counts(node, repetition, places)
    return nested.lists(counts, None, _part(node, node.repetition, node.definition))


def _elements(node, inside):
    """The elements of a list: of the repeated field, or of its only child."""
    is_old = inside.name in ("array", f"{node.name}_tuple")
    if len(inside.children) == 1 and not is_old:
        return _child(inside.children[0], inside.repetition, inside.definition)
    return _part(inside, inside.repetition, inside.definition)


def _counts(inside, repetition, places):
    """The number of elements of a repeated field that begins in each of these places."""
    numpy = _modules["numpy"]
    definitions, repetitions, _ = inside.leaves()[0].levels
    begins = (repetitions <= repetition + 1) & (definitions >= inside.definition)
    if not len(places):
        return numpy.zeros(0, "i8")
    return numpy.add.reduceat(begins, places, dtype="i8")
