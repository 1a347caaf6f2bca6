"""Representations of a value by media type.

They are found as in notebooks, by the names of methods: `_repr_html_` and others. Each method
belongs to the code and may do anything: if it raises, that representation is lost, and its result
is accepted only if it has the right type.
"""

import sys
from binascii import Error as _Base64Error
from binascii import a2b_base64 as _from_base64
from binascii import b2a_base64 as _to_base64

from _belljar.display import pretty
from _belljar.protocol import guard
from _belljar.protocol.inspecting import exact_str, is_kind, text_of, type_name
from _belljar.values import values

# For each form, so that the host accepts the others; the host has a limit for their sum.
FORM_BYTES = 6 * 1024 * 1024
TEXT_CHARACTERS = 100_000
_FORMS = 32
_NAME = 256
_DEPTH = 100  # what the host's JSON reader takes, less the frame around the value
_ITEMS = 100_000
_modules = sys.modules

PLAIN = "text/plain"
_HOOKS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)
# The first bytes of such files.
_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "application/pdf": b"%PDF-",
}
# A value with this attribute has all attributes, without meaning it (`unittest.mock`).
_CANARY = "_ipython_canary_method_should_not_exist_"
_PLAIN_TYPES = frozenset(
    (bool, bytes, complex, dict, float, int, list, set, str, tuple, type(None))
)


class _NotTakenError(Exception):
    """A form of the wrong type; the message describes it."""


def of(value, include=None, exclude=None):
    """The forms of a value with their metadata; text is always included."""
    data, metadata = {PLAIN: plain(value)}, {}
    for form, found, more in _offered(value):
        if (include and form not in include) or (exclude and form in exclude):
            continue
        _take(data, metadata, form, found, more)
    return data, metadata


def raw(offered, metadata=None):
    """The forms that the code passes itself."""
    data, known = {}, {}
    for form, found in dict(offered).items():
        _take(data, known, form, found, (metadata or {}).get(form))
    return data, known


def known_of(data, metadata):
    """The code's metadata for the forms in `data`, by media type."""
    if not is_kind(metadata, dict):
        return {}
    return {form: _json(metadata[form]) for form in data if is_kind(metadata.get(form), dict)}


def plain(value):
    """The text of a value: its own layout or its `repr`, or a substitute."""
    laid_out = pretty.text(value, TEXT_CHARACTERS)
    if laid_out is not None:
        return laid_out
    try:
        text, cut = text_of(value, TEXT_CHARACTERS)
    except Exception as error:
        name = type_name(type(value))
        guard.note(f"The repr of a displayed {name} failed: {guard.describe(error)}")
        return f"<{name} object, whose repr failed>"
    return f"{text}..." if cut else text


def hook(value, name):
    """The value's method of that name, or None. Looking it up may run code."""
    kind = type(value)
    if kind in _PLAIN_TYPES or issubclass(kind, type):
        return None
    try:
        if getattr(value, _CANARY, None) is not None:
            return None
        method = getattr(value, name, None)
    except Exception:
        return None
    return method if callable(method) else None


def _offered(value):
    """Form, content and metadata of everything that the value offers."""
    if type(value) in _PLAIN_TYPES:
        return
    taken = set()
    for form, found, more in _of_bundle(value):
        taken.add(form)
        yield form, found, more
    for name, form in _HOOKS:
        if form in taken:
            continue
        found = _call(value, name)
        more = None
        if type(found) is tuple and len(found) == 2:
            found, more = found
        if found is not None:
            yield form, found, more
    if "text/html" not in taken and _is_series(value):
        found = _call(value.to_frame(), "_repr_html_")
        if found is not None:
            yield "text/html", found, None


def _of_bundle(value):
    found = _call(value, "_repr_mimebundle_", include=None, exclude=None)
    more = None
    if type(found) is tuple and len(found) == 2:
        found, more = found
    if not is_kind(found, dict):
        return
    more = more if is_kind(more, dict) else {}
    for form in list(dict.keys(found)):
        yield form, dict.get(found, form), dict.get(more, form)


def _call(value, name, **arguments):
    method = hook(value, name)
    if method is None:
        return None
    try:
        return method(**arguments)
    except NotImplementedError:
        return None  # the value has no such form
    except Exception as error:
        kind = type_name(type(value))
        guard.note(f"{name} of a displayed {kind} failed: {guard.describe(error)}")
        return None


def _is_series(value):
    pandas = _modules.get("pandas")
    return pandas is not None and is_kind(value, getattr(pandas, "Series", _NotTakenError))


def _take(data, metadata, form, found, more):
    """Put one form into the bundle, if it has the right type."""
    if found is None:
        return
    name = exact_str(form) if is_kind(form, str) else ""
    try:
        if not _is_media_type(name):
            raise _NotTakenError("is not named by a media type")
        if len(data) >= _FORMS and name not in data:
            raise _NotTakenError("is one too many")
        data[name] = _content(name, found)
    except _NotTakenError as error:
        guard.note(f"A displayed value's form {name[:_NAME]!r} is left out: it {error}")
        return
    if is_kind(more, dict):
        metadata[name] = _json(more)


def _is_media_type(name):
    kind, _, form = name.partition("/")
    printable = name.isascii() and name.isprintable() and " " not in name
    return bool(kind and form and printable and len(name) <= _NAME)


def _content(form, found):
    if form == "application/json" or form.endswith("+json"):
        return _json(found)
    if _is_binary(form):
        return _binary(form, found)
    if is_kind(found, bytes):
        found = bytes.decode(found, "utf-8", "replace")
    if not is_kind(found, str):
        raise _NotTakenError(f"has the type {type_name(type(found))}, not str")
    text = exact_str(found)
    if form == PLAIN and len(text) > TEXT_CHARACTERS:
        return f"{text[:TEXT_CHARACTERS]}..."
    if len(text) > FORM_BYTES:
        raise _NotTakenError(f"has more than {FORM_BYTES} characters")
    return text


def _is_binary(form):
    kind = form.partition("/")[0]
    return (
        kind in ("image", "audio", "video") and not form.endswith("+xml")
    ) or form == "application/pdf"


def _binary(form, found):
    if is_kind(found, str):
        text = "".join(exact_str(found).split())
    elif is_kind(found, bytes) or is_kind(found, bytearray) or is_kind(found, memoryview):
        text = base64(found)
    else:
        raise _NotTakenError(f"has the type {type_name(type(found))}, not bytes")
    if len(text) > FORM_BYTES:
        raise _NotTakenError(f"has more than {FORM_BYTES} bytes as base64")
    try:
        start = _from_base64(text[:16]) if len(text) % 4 == 0 else None
        _from_base64(text, strict_mode=True)
    except (_Base64Error, ValueError):
        start = None
    if start is None:
        raise _NotTakenError("is neither bytes nor base64")
    if not start.startswith(_SIGNATURES.get(form, b"")):
        raise _NotTakenError("does not begin as such a file does")
    return text


def base64(data):
    return _to_base64(data, newline=False).decode("ascii")


def _json(found):
    limits = values.Limits(_DEPTH, _ITEMS, FORM_BYTES)
    content, cut = values.convert(found, limits)
    if cut:
        raise _NotTakenError("is too large or too deep")
    return content
