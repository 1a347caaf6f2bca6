"""Questions about an idle session, which is reset afterwards.

The session may be hostile: names are evaluated as by the code, under a time limit of the host, and
all effects are undone.
"""

import builtins
import inspect
import keyword
import re
import sys

from _belljar.protocol import door, guard, interrupt
from _belljar.protocol.inspecting import exact_str, mro_of, text_of, type_name, type_qualname
from _belljar.source import namespaces, originals
from _belljar.values import building, typed

_GLOBALS = namespaces.GLOBALS
_MOST = 1_000  # names
_LONGEST = 200  # characters of one
_TEXT = 10_000  # characters of a description
_AWAIT = 0x2000  # PyCF_ALLOW_TOP_LEVEL_AWAIT
_INCOMPLETE = 0x4000  # PyCF_ALLOW_INCOMPLETE_INPUT
_STEP = 4
_modules = sys.modules
_before = re.compile(r"(?:[^\W\d]\w*\s*\.\s*)*(?:[^\W\d]\w*)?\Z").search
_after = re.compile(r"\w*").match
_importing = re.compile(r"(?:^|[;\n])\s*(?:import\s+(?:[\w.]+\s*,\s*)*|from\s+)([\w.]*)\Z").search
_from = re.compile(r"(?:^|[;\n])\s*from\s+([\w.]+)\s+import\s+(?:[\w]+\s*,\s*|\()*(\w*)\Z").search
_ends_block = re.compile(r"\s*(?:return|raise|pass|break|continue)\b").match


def answer(question, bounds):
    """Send the answer. Failures are noted, and give no answer."""
    what = "the question cannot be answered"
    guard.attempt(what, _answer, question, typed.Limits(**bounds))


def _answer(question, limits):
    kind = question["kind"]
    if kind == "get":
        if question["name"] in _GLOBALS:
            _send(_GLOBALS[question["name"]], limits)
        return
    _send(_KINDS[kind](question), limits)


def _send(value, limits):
    with originals.restored():
        # Kept until the host has read the encoded data.
        encoded = typed.encode(value, limits)
        cut = b"\1" if encoded.truncated else b"\0"
        door.send_bytes(b"V", cut + encoded.payload)


def _set(_question):
    with originals.restored():
        _GLOBALS.update(building.decode(door.receive(b"G")))
    return True


def _evaluate(question):
    """For each name whether its expression has a value, and the value or the error."""
    return {name: _value_of(source) for name, source in question["expressions"].items()}


def _value_of(source):
    try:
        code = compile(source.strip(), "<string>", "eval", dont_inherit=True)
        return (True, eval(code, _GLOBALS))  # noqa: S307
    except interrupt.Interrupted:
        raise
    except BaseException as error:
        return (False, guard.describe(error))


def _complete(question):
    cursor = question["cursor"]
    before = question["code"][:cursor]
    names, start = _names_for(before)
    typed_part = before[start:]
    names = [name for name in names if name.startswith(typed_part) and len(name) <= _LONGEST]
    if not typed_part.startswith("_"):
        # Private names are listed on request.
        names = [name for name in names if not name.startswith("_")]
    return {"start": start, "matches": sorted(set(names))[:_MOST]}


def _names_for(before):
    """The completions of the end of a text, and where they begin."""
    found = _from(before)
    if found:
        return _names_in_module(found[1]), found.start(2)
    found = _importing(before)
    if found:
        parent, dot, _ = found[1].rpartition(".")
        start = found.start(1) + len(parent) + len(dot)
        return (_submodules(parent) if parent else _top_modules()), start
    path = _before(before)[0]
    start = len(before) - len(path)
    owner, dot, name = path.rpartition(".")
    if not dot:
        if start and (before[start - 1] == "." or before[start - 1].isalnum()):
            return [], len(before)
        return _global_names(), start
    start = len(before) - len(name.lstrip())
    found = _resolve(owner)
    return ([] if found is None else _attributes(found[0])), start


def _global_names():
    names = [*_GLOBALS, *vars(builtins), *keyword.kwlist]
    return [exact_str(name) for name in names if issubclass(type(name), str)]


def _attributes(value):
    names = []
    for read in (dir, _class_names):
        try:
            names += [exact_str(name) for name in read(value) if issubclass(type(name), str)]
            break
        except interrupt.Interrupted:
            raise
        except BaseException:  # noqa: S112
            continue
    return names


def _class_names(value):
    return [name for cls in mro_of(type(value)) for name in type.__dict__["__dict__"].__get__(cls)]


def _resolve(path):
    """The value of a dotted name, in a list of one; None if it does not exist."""
    first, *rest = (part.strip() for part in path.split("."))
    if first in _GLOBALS:
        value = _GLOBALS[first]
    elif first in vars(builtins):
        value = vars(builtins)[first]
    else:
        return None
    try:
        for name in rest:
            value = getattr(value, name)
    except interrupt.Interrupted:
        raise
    except BaseException:
        return None
    return [value]


def _top_modules():
    return [name for name in {*sys.stdlib_module_names, *_modules} if "." not in name]


def _submodules(parent):
    start = f"{parent}."
    loaded = [name.removeprefix(start) for name in _modules if name.startswith(start)]
    return [name for name in loaded if "." not in name]


def _names_in_module(name):
    module = _modules.get(name)
    return [] if module is None else [*_attributes(module), *_submodules(name)]


def _inspect(question):
    """The description of the object whose name is at the cursor."""
    code, cursor = question["code"], question["cursor"]
    end = cursor + _after(code, cursor).end() - cursor
    path = _before(code[:end])[0].strip()
    # `f(` refers to `f`.
    if not path:
        path = _before(code[:cursor].rstrip().removesuffix("("))[0].strip()
    found = _resolve(path) if path else None
    if found is None:
        return {"found": False}
    value = found[0]
    cls = type(value)
    described = {
        "found": True,
        "name": path,
        "type": type_qualname(cls),
        "text": _try(lambda: text_of(value, _TEXT)[0]) or f"<{type_name(cls)}>",
        "signature": _try(lambda: f"{path}{inspect.signature(value)}") if callable(value) else None,
        "doc": _try(inspect.getdoc, value),
        "source": None,
    }
    if question["detail"]:
        described["source"] = _try(inspect.getsource, value)
    return described


def _try(read, *args):
    """A text of the code, cut; None if it is not a string."""
    try:
        found = read(*args)
        return exact_str(found)[:_TEXT] if issubclass(type(found), str) else None
    except interrupt.Interrupted:
        raise
    except BaseException:
        return None


def _is_complete(question):
    code, is_whole = question["code"], True
    try:
        compile(f"{code}\n", "<string>", "exec", _AWAIT | _INCOMPLETE, dont_inherit=True)
    except SyntaxError as error:
        is_whole = False
        if "incomplete input" not in str(error):
            return {"status": "invalid", "indent": ""}
    except (ValueError, OverflowError):
        return {"status": "invalid", "indent": ""}
    lines = code.split("\n")
    last = lines[-1]
    if is_whole and (len(lines) == 1 or not last[:1].isspace() or not last.strip()):
        return {"status": "complete", "indent": ""}
    return {"status": "incomplete", "indent": _indent(lines)}


def _indent(lines):
    """The indentation of the next line of a block."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    width = len(last) - len(last.lstrip())
    if last.rstrip().endswith(":"):
        width += _STEP
    elif _ends_block(last):
        width = max(width - _STEP, 0)
    return " " * width


_KINDS = {
    "set": _set,
    "evaluate": _evaluate,
    "complete": _complete,
    "inspect": _inspect,
    "is_complete": _is_complete,
}
