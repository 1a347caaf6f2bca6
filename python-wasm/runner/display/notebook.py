"""`display` and related functions, with the names that they have in notebooks."""

import sys

from _belljar.display import bundles, columns, displays, figures
from _belljar.protocol import guard
from _belljar.protocol.inspecting import exact_str, is_kind

_NAME = 256


class _State:
    __slots__ = ("names",)

    def __init__(self):
        self.names = 0


_STATE = _State()


def result(value):
    """For `sys.displayhook`: the value of the last expression."""
    if value is None:
        return
    if not displays.STATE.on:
        print(repr(value))
    elif not figures.show("result", value) and not _shows_itself(value):
        displays.send("result", *_forms(value))


class DisplayHandle:
    """A place where a value was displayed, to show other values in."""

    def __init__(self, display_id=None):
        if display_id is None:
            _STATE.names += 1
            display_id = f"display-{_STATE.names}"
        self.display_id = display_id

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj, **kwargs):
        display(obj, display_id=self.display_id, **kwargs)

    def update(self, obj, **kwargs):
        update_display(obj, display_id=self.display_id, **kwargs)


def display(
    *objs,
    include=None,
    exclude=None,
    metadata=None,
    transient=None,
    display_id=None,
    raw=False,
    clear=False,
    **kwargs,
):
    """Display values: as events in all forms that they offer, else as text on standard output.

    With `display_id` (a name, or True for a new one), returns a handle that can show other values
    in the same place. With `raw`, each value is a dictionary of forms by media type.
    """
    if transient and display_id is None:
        display_id = transient.get("display_id")
    handle = None
    if display_id is not None and display_id is not False:
        handle = DisplayHandle(None if display_id is True else display_id)
    if clear:
        clear_output(wait=True)
    for value in objs:
        _show("display", value, (include, exclude), metadata, handle, raw)
    return handle


def update_display(obj, *, display_id, include=None, exclude=None, metadata=None, raw=False, **_):
    """Replace the value displayed under that id."""
    _show("update", obj, (include, exclude), metadata, DisplayHandle(display_id), raw)


def publish_display_data(data, metadata=None, *, transient=None, update=False, **_):
    """Display one value in the given forms, by media type."""
    name = (transient or {}).get("display_id")
    handle = None if name is None else DisplayHandle(name)
    _show("update" if update else "display", data, (None, None), metadata, handle, True)


def clear_output(wait=False):
    """Clear the output so far; with `wait`, when new output comes."""
    if displays.STATE.on:
        displays.clear(bool(wait))


def _show(kind, value, choice, metadata, handle, raw):
    name = None if handle is None else _text(handle.display_id)
    if raw:
        data, known = bundles.raw(value, metadata)
        if displays.STATE.on:
            displays.send(kind, data, known, name)
        else:
            print(data.get(bundles.PLAIN, f"<{', '.join(data)}>"), file=sys.stdout)
    elif not figures.show(kind, value, name) and not _shows_itself(value):
        if displays.STATE.on:
            data, known = _forms(value, *choice)
            displays.send(kind, data, known | bundles.known_of(data, metadata), name)
        else:
            print(repr(value), file=sys.stdout)


def _forms(value, include=None, exclude=None):
    data, known = bundles.of(value, include, exclude)
    if figures.STATE.options.get("charts") and not (include or exclude):
        columns.add(data, value)
    return data, known


def _text(display_id):
    text = exact_str(display_id) if is_kind(display_id, str) else repr(display_id)
    return text[:_NAME]


def _shows_itself(value):
    """Whether the value has a method that displays it, and has used it."""
    method = bundles.hook(value, "_ipython_display_")
    if method is None:
        return False
    try:
        method()
    except NotImplementedError:
        return False
    except Exception as error:
        guard.note(f"_ipython_display_ failed: {guard.describe(error)}")
        return False
    return True
