"""Reads Arrow data, a Feather file or a stream, as a DataFrame."""

import sys

from _belljar.formats import arrow_nested, arrow_values, nested, reframing
from _belljar.formats.arrow_batches import Content

_modules = sys.modules


def read(file, columns=None, nullable=False):
    """The DataFrame in a file; `nullable` requests types that support missing values."""
    content = Content(file)
    fields, notes = content.schema.fields, content.schema.pandas()
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise ValueError("the Arrow data have two columns of one name")
    described, values = reframing.described(notes), {}
    for name in names if columns is None else _chosen(names, columns):
        place = names.index(name)
        values[name] = _Reader(content, place).column(described.get(name, {}), nullable)
    frame = reframing.frame(values, notes, content.rows)
    attributes = notes.get("attributes")
    frame.attrs = attributes if type(attributes) is dict else {}
    return frame


def _chosen(names, columns):
    """The names of the columns requested by name or by position."""
    if not hasattr(type(columns), "__getitem__") or isinstance(columns, (str, bytes)):
        raise TypeError(f"Columns must be a sequence but, got {type(columns).__name__}")
    kinds = {type(column) for column in columns}
    if kinds == {int}:
        if not all(0 <= place < len(names) for place in columns):
            raise ValueError(f"the Arrow data have columns 0 to {len(names) - 1}, not {columns}")
        return [names[place] for place in columns]
    if kinds - {str}:
        raise TypeError(f"Columns must be indices or names. Got columns {columns}")
    lacking = [name for name in columns if name not in names]
    if lacking:
        raise ValueError(f"the Arrow data have no column {lacking[0]!r}, but {names}")
    return list(dict.fromkeys(columns))


class _Reader:
    """Reads one column from all batches."""

    def __init__(self, content, place):
        self._content = content
        self._place = place
        self._field = content.schema.fields[place]
        if self._field.meaning.kind is None:
            raise ValueError(
                f"column {self._field.name!r} of the Arrow data is {self._field.meaning.detail}, "
                "which cannot be read here: choose others with columns=[...]"
            )

    def column(self, note, nullable):
        """The column as in pandas; `note` is pandas' metadata for it."""
        field, batches = self._field, self._content.batches
        if field.dictionary is not None:
            return self._categorical()
        meaning = field.meaning
        if meaning.kind == "nested":
            return nested.joined([self._nested(batch) for batch in batches])
        parts = [_values(meaning, batch.rows, self._part(batch)) for batch in batches]
        valid, values = _joined(parts, meaning)
        if meaning.kind == "moment" and meaning.detail is not None:
            return reframing.zoned(reframing.spread(values, valid), meaning.detail, "Arrow")
        dtype = note.get("numpy_type")
        return reframing.typed(values, valid, dtype, nullable, meaning.kind == "text")

    def _part(self, batch):
        return batch.part(self._content.schema.fields, self._place)

    def _nested(self, batch):
        node = batch.node(self._content.schema.fields, self._place)
        return arrow_nested.part(self._field, node, _values)[0]

    def _categorical(self):
        """Codes and their dictionary, if all batches refer to the same one, or to a part."""
        numpy, pandas = _modules["numpy"], _modules["pandas"]
        content, field = self._content, self._field
        known, parts = {}, []
        all_of_it = content.dictionary(field.dictionary, None)
        is_same = True
        for batch in content.batches:
            found = content.dictionary(field.dictionary, batch)
            is_same = is_same and found == all_of_it[: len(found)]
            sizes = sum(part.rows for part in found)
            parts.append((found, _codes(field.codes, batch, self._part(batch), sizes)))
        codes = [part for _, part in parts] or [numpy.empty(0, "<i4")]
        if is_same:
            codes, values = numpy.concatenate(codes), self._values(all_of_it, known)
            there = ~pandas.isna(values)
            if not there.all():
                places = numpy.append(numpy.where(there, there.cumsum() - 1, -1), -1)
                codes, values = places[codes], values[there]
        else:
            dense = [self._values(found, known)[part] for found, part in parts]
            dense = [
                numpy.where(part < 0, None, values)
                for values, (_, part) in zip(dense, parts, strict=True)
            ]
            codes, values = pandas.factorize(numpy.concatenate(dense))
        is_text = field.meaning.kind == "text"
        return reframing.categorical(codes, values, field.ordered, is_text)

    def _values(self, batches, known):
        """The values of a dictionary, None for missing ones."""
        meaning, parts = self._field.meaning, []
        for batch in batches:
            if batch.turn not in known:
                part = batch.part([self._field.plain()], 0)
                valid, values = _values(meaning, batch.rows, part)
                known[batch.turn] = reframing.typed(values, valid, None, False)
            parts.append(known[batch.turn])
        if not parts:
            return _joined([], meaning)[1]
        return parts[0] if len(parts) == 1 else _modules["numpy"].concatenate(parts)


def _values(meaning, rows, part):
    """The mask of valid values, None if all are valid; and the values."""
    numpy, (missing, buffers) = _modules["numpy"], part
    if meaning.layout == "null":
        return numpy.zeros(rows, bool), reframing.objects([])
    valid = arrow_values.bits(buffers[0], rows) if missing else None
    if meaning.layout == "fixed":
        values = arrow_values.fixed(buffers[1], meaning.dtype, rows)
    elif meaning.layout == "bits":
        values = arrow_values.bits(buffers[1], rows)
    elif meaning.layout == "binary":
        is_text = meaning.kind == "text"
        values = arrow_values.binary(*buffers[1:], meaning.dtype, valid, rows, is_text)
    else:
        is_text = meaning.kind == "text"
        values = arrow_values.views(buffers[1], buffers[2:], valid, rows, is_text)
    return valid, arrow_values.meant(values if valid is None else values[valid], meaning)


def _joined(parts, meaning):
    """Concatenate parts of a column into new memory."""
    numpy = _modules["numpy"]
    if not parts:
        dtype = {"fixed": meaning.dtype, "bits": "?"}.get(meaning.layout, "O")
        empty = numpy.empty(0, dtype)
        return None, arrow_values.meant(empty, meaning)
    values = numpy.concatenate([values for _, values in parts])
    if all(valid is None for valid, _ in parts):
        return None, values
    masks = [numpy.ones(len(v), bool) if valid is None else valid for valid, v in parts]
    return numpy.concatenate(masks), values


def _codes(dtype, batch, part, size):
    """Indices into a dictionary of that size, -1 for missing values."""
    numpy, (missing, buffers), rows = _modules["numpy"], part, batch.rows
    codes = arrow_values.fixed(buffers[1], dtype, rows)
    valid = arrow_values.bits(buffers[0], rows) if missing else numpy.ones(rows, bool)
    there = codes[valid]
    if len(there) and not (int(there.min()) >= 0 and int(there.max()) < size):
        raise ValueError("the Arrow data refer to missing dictionary entries")
    full = numpy.full(rows, -1, "<i4")
    full[valid] = there
    return full
