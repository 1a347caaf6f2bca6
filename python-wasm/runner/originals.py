"""Names that the code has patched, given back for as long as something of ours runs.

What the code draws is captured with matplotlib, and a table is told with pandas: by their public
names, like any other code. Code that has patched one of these (`unittest.mock`) would see calls
that it did not make, and lose its figure to them. So what the modules and their classes hold is
noted while the image is baked; before a capture every name gets its own value back, and after it
the code's. Names that begin with an underscore, data, and modules of the code are left alone.
"""

import sys
import types
from opcode import opmap as _opcodes
from operator import is_ as _is
from operator import itemgetter as _reader

from _belljar import sources
from _belljar.inspecting import exact_str, mro_of

_LIBRARIES = frozenset(("matplotlib", "mpl_toolkits", "numpy", "pandas", "PIL"))
_STANDARD = sys.stdlib_module_names
_HELD = (classmethod, property, staticmethod, types.FunctionType)
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: another class takes no attribute
_PRIVATE = frozenset(("__import__", "__build_class__"))
_MISSING = object()
_modules = sys.modules
_contents = type.__dict__["__dict__"].__get__
_flags = type.__dict__["__flags__"].__get__
_set_on_class, _remove_from_class = type.__setattr__, type.__delattr__

# What code without any of these cannot do to a module.
_STORES = tuple(_opcodes[name] for name in ("STORE_ATTR", "DELETE_ATTR"))
_WAYS = frozenset(
    "__delattr__ __dict__ __setattr__ compile delattr eval exec exec_module globals import_module "
    "mock monkeypatch patch run_module run_path setattr vars".split()
)


class _Namespace:
    """A module or a class, and what its public names stood for."""

    __slots__ = ("held", "names", "owner", "read", "size", "values")

    def __init__(self, owner, held, found):
        self.owner = owner
        self.held = held
        self.names = tuple(found)
        self.values = tuple(found.values())
        self.read = _reader(*found)
        self.size = len(held)

    def is_changed(self):
        if self.owner is not None and len(self.held) != self.size:
            return True
        try:
            return not all(map(_is, self.read(self.held), self.values))
        except KeyError:
            return True

    def differences(self):
        """Each name that stands for something else, with what it stands for and should."""
        for name, value in zip(self.names, self.values, strict=True):
            current = self.held.get(name, _MISSING)
            if current is not value:
                yield name, current, value
        if self.owner is None or len(self.held) <= self.size:
            return
        bases = mro_of(self.owner)[1:]
        for name in set(self.held).difference(self.names):
            # What a class inherits is patched by giving it one of its own.
            if _is_public(name) and any(name in _contents(base) for base in bases):
                yield name, self.held[name], _MISSING

    def put(self, name, value):
        if self.owner is None:
            if value is _MISSING:
                self.held.pop(name, None)
            else:
                self.held[name] = value
        elif value is not _MISSING:
            _set_on_class(self.owner, name, value)
        elif name in self.held:
            _remove_from_class(self.owner, name)


class _State:
    __slots__ = ("active", "loaded", "modules", "namespaces", "seen", "suspected")

    def __init__(self):
        self.modules = None
        self.namespaces = []
        self.seen = set()
        self.loaded = 0
        self.suspected = True
        self.active = False


_STATE = _State()


def seal():
    """Note everything anew, which nobody has patched yet."""
    _STATE.namespaces.clear()
    _STATE.seen.clear()
    _STATE.suspected = False
    learn()
    _STATE.loaded = _count()


def _count():
    """How many modules there are, but for the runner, which a run takes out of sight."""
    return len(_modules) - ("_belljar" in _modules)


def learn():
    """Note what has been imported since."""
    for name, module in list(_modules.items()):
        if type(module) is types.ModuleType and _is_ours(name) and name not in _STATE.seen:
            _STATE.seen.add(name)
            _learn_module(name, module.__dict__)
    loaded = {name: module for name, module in _modules.items() if _is_ours(name)}
    _STATE.modules = _Namespace(None, _modules, loaded)


def _is_ours(name):
    parts = name.split(".")
    return (parts[0] in _LIBRARIES or parts[0] in _STANDARD) and all(map(_is_public, parts))


def _is_public(name):
    return not name.startswith("_")


def _learn_module(name, held):
    found = {}
    for key, value in held.items():
        if (_is_public(key) or key in _PRIVATE) and (
            callable(value) or type(value) is types.ModuleType
        ):
            found[key] = value
            if issubclass(type(value), type) and _flags(value) & _HEAP:
                _learn_class(name, value)
    _keep(None, held, found)


def _learn_class(name, cls):
    if cls in _STATE.seen or _root(getattr(cls, "__module__", None)) != _root(name):
        return
    _STATE.seen.add(cls)
    held = _contents(cls)
    found = {key: held[key] for key in held if _is_public(key) and type(held[key]) in _HELD}
    _keep(cls, held, found)


def _root(module):
    return exact_str(module).partition(".")[0] if issubclass(type(module), str) else ""


def _keep(owner, held, found):
    if len(found) > 1:  # of a single one the reader gives no tuple
        _STATE.namespaces.append(_Namespace(owner, held, found))


def watch(program):
    """Look at a program, before it runs, for what could patch anything."""
    if not _STATE.suspected:
        _STATE.suspected = any(map(_may_patch, sources.parts(program)))


def _may_patch(code):
    if not _WAYS.isdisjoint(code.co_names):
        return True
    operations = code.co_code[::2]
    return any(one in operations for one in _STORES)


class restored:  # noqa: N801 (it is used like a function)
    """For a `with`: the names are the libraries' own; afterwards they are the code's again."""

    __slots__ = ("_changes",)

    def __enter__(self):
        self._changes = None
        if _STATE.active or not (_STATE.suspected or _count() != _STATE.loaded):
            return
        _STATE.active = True
        self._changes = []
        try:
            for space in (_STATE.modules, *_STATE.namespaces):
                if space is not None and space.is_changed():
                    self._restore(space)
        except Exception:
            return  # such as from an audit hook; what was reached is in place

    def _restore(self, space):
        for name, current, value in list(space.differences()):
            self._changes.append((space, name, current, value))
            space.put(name, value)

    def __exit__(self, *_):
        if self._changes is None:
            return
        _STATE.active = False
        while self._changes:
            space, name, current, value = self._changes.pop()
            if space.held.get(name, _MISSING) is value:
                space.put(name, current)
