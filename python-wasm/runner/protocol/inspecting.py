"""Inspects untrusted objects: only with C-level accessors, never an overridable method."""

_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
mro_of = type.__dict__["__mro__"].__get__
exact_str = str.__str__


def type_module(cls):
    """The module named by a class, or "" if that is not a string."""
    try:
        module = _module_of(cls)
    except AttributeError:
        return ""
    return exact_str(module) if issubclass(type(module), str) else ""


def type_name(cls):
    return exact_str(_name_of(cls))


def type_qualname(cls):
    return exact_str(_qualname_of(cls))


def is_kind(value, base):
    """Whether `value` is an instance of `base`, regardless of its `__class__`."""
    for cls in mro_of(type(value)):
        if cls is base:
            return True
    return False


def text_of(value, limit, func=repr):
    """`func(value)` as an exact string of at most `limit` characters, and whether it was cut.

    Exceptions of `func` are passed on to the caller.
    """
    text = exact_str(func(value))
    if len(text) > limit:
        return text[:limit], True
    return text, False


def rule_of(value, numpy, pandas):
    """The rule for the first class of a value that is in either library's table, or None."""
    for cls in mro_of(type(value)):
        root = type_module(cls).partition(".")[0]
        if root == "numpy":
            rule = numpy.get(type_name(cls))
        elif root == "pandas":
            rule = pandas.get(type_name(cls))
        else:
            rule = None
        if rule is not None:
            return rule
    return None
