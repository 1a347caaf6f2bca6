"""Calls of a function, from its signature and its documentation."""

import inspect
import itertools
import re

from values import FORMS, NAMED

CHOICE = re.compile(r"\{\s*(['\"][\w-]+['\"])")
FIRST_LINE = re.compile(r"^\s*(?:[\w.]+)\((.*?)\)\s*(?:->.*)?$", re.MULTILINE)

# Options that change how wide a result is, or how it is summed.
OPTIONS = [
    ("axis", "0"), ("axis", "-1"), ("axis", "None"), ("keepdims", "True"), ("dtype", "int"),
    ("dtype", '"int"'), ("dtype", "float"), ("ddof", "1"), ("skipna", "False"), ("bias", "False"),
    ("nan_policy", '"omit"'), ("normalize", "False"), ("weights", "[100_000, 200_000, 3, 4]"),
    ("initial", "3_000_000_000"), ("return_inverse", "True"), ("return_counts", "True"),
    ("full", "True"), ("density", "False"), ("sample_weight", "[100_000, 200_000, 3, 4]"),
    ("min_count", "2"), ("numeric_only", "True"), ("sort", "False"), ("as_index", "False"),
    ("center", "True"), ("fill_value", "2**40"), ("method", '"fft"'), ("mode", '"valid"'),
    ("mode", '"same"'), ("demean", "False"), ("adjusted", "True"), ("usevar", '"unequal"'),
    ("keepends", "True"), ("average", '"macro"'), ("squared", "False"), ("labels", "False"),
]  # fmt: skip


def parameters(function):
    """The parameters without a default, each with what the documentation says of its type, and the
    names of the others."""
    document = inspect.getdoc(function) or ""
    try:
        listed = list(inspect.signature(function).parameters.values())
        positional = [p for p in listed if p.kind <= p.POSITIONAL_OR_KEYWORD]
        required = [p.name for p in positional if p.default is p.empty]
        options = [p.name for p in listed if p.default is not p.empty]
        if not listed or listed[0].kind == inspect.Parameter.VAR_POSITIONAL:
            raise ValueError
    except (ValueError, TypeError):
        required, options = from_first_line(document)
    if hasattr(function, "nin"):
        required = [f"x{at}" for at in range(function.nin)]
    return [(name, documented(document, name)) for name in required], options


def from_first_line(document):
    line = FIRST_LINE.search(document)
    text = re.sub(r"[\[\]/*]", "", line[1]) if line else "x"
    parts = [part.strip() for part in text.split(",") if part.strip()]
    required = [part for part in parts if "=" not in part and part.isidentifier()]
    return required, [part.split("=")[0] for part in parts if "=" in part]


def documented(document, name):
    names = rf"(?:\w+, *)*{re.escape(name)}(?:, *\w+)*"
    line = re.search(rf"^\s*{names}\s*:(.*)$", document, re.MULTILINE)
    return line[1] if line else ""


def calls(path, function, turn, receiver=False):
    """Texts of calls. `turn` is a number of the function's own, by which its values are chosen."""
    required, options = parameters(function)
    if receiver and required and required[0][0] == "self":
        required = required[1:]
    yield from plain(path, required, turn)
    base = next(plain(path, required, turn), None)
    table = next(itertools.islice(plain(path, required, turn), 1, None), None)
    for option, text in OPTIONS:
        if option in options:
            for call in (base, table):
                if call:
                    yield call[:-1] + (", " if call[-2] != "(" else "") + f"{option}={text})"


def plain(path, required, turn):
    """Each form once or twice, as the argument of all parameters that take values."""
    if not required:
        yield f"{path}()"
        return
    seen = set()
    for rotation in range(2):
        for _, texts, made in FORMS:
            arguments = []
            for at, (name, kind) in enumerate(required):
                arguments.append(argument(name, kind, texts, made, turn + rotation * 3 + at))
            call = f"{path}({', '.join(arguments)})"
            if call not in seen:
                seen.add(call)
                yield call


def argument(name, kind, texts, made, turn):
    choice = CHOICE.search(kind)
    if choice:
        return choice[1].replace("'", '"')
    # A value by name stands for a parameter only where it cannot take many.
    many = re.search(r"array|sequence|list|series|matrix", kind, re.IGNORECASE)
    if name in NAMED and not many:
        return NAMED[name][turn % len(NAMED[name])]
    if re.search(r"callable|function", kind):
        return "np.sum"
    if re.match(r"\s*(positive |non-negative )?int\b", kind):
        return "2"
    if re.match(r"\s*bool", kind):
        return "True"
    if re.match(r"\s*(str|string)\b", kind):
        return '"a"'
    return made(texts[turn % len(texts)])
