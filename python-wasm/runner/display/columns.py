"""The data of a data frame, a list or a dictionary, in addition to its own forms.

Only if charts are requested as data, in the same format.
"""

import sys

from _belljar.protocol import guard
from _belljar.protocol.inspecting import is_kind
from _belljar.values import values

FORM = "application/vnd.belljar.columns+json"
_JSON = "application/json"
_ITEMS = 1_000_000
_BYTES = 4 * 1024 * 1024
_modules = sys.modules


def add(data, value):
    """Add the form for a value of these types, unless it offers that form itself."""
    pandas = _modules.get("pandas")
    try:
        if type(value) in (list, dict):
            _put(data, _JSON, value)
        elif (
            pandas is not None
            and is_kind(value, pandas.DataFrame)
            and len(value) * max(1, len(value.columns)) <= _ITEMS
        ):
            _put(data, FORM, {str(name): list(column) for name, column in value.items()})
    except Exception as error:
        guard.note(f"The data of a displayed value cannot be read: {guard.describe(error)}")


def _put(data, form, found):
    content, cut = values.convert(found, values.Limits(64, _ITEMS, _BYTES))
    if not cut:
        data.setdefault(form, content)
