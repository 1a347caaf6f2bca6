"""Restores names that the code has patched while the runner uses them.

Figures are captured with matplotlib and tables read with pandas through their public names. Code
that has patched these (`unittest.mock`) would see unexpected calls, and lose its figures. So the
contents of the modules and their classes are recorded while the image is baked; before a capture
every name gets its original value, and afterwards the code's. Private names, data, and the code's
own modules are left alone.

Checking everything takes as long as printing a table. So a program is analyzed before it runs: only
the attributes that it stores are checked, unless it has other ways to store attributes, or has
imported a foreign module; and only if something is drawn or printed (`needed`).
"""

import os
import sys
import types
from importlib.machinery import ModuleSpec
from opcode import opmap as _opcodes
from operator import is_ as _is

from _belljar.protocol.inspecting import exact_str, mro_of
from _belljar.source import sources

_LIBRARIES = frozenset(("matplotlib", "mpl_toolkits", "numpy", "pandas", "PIL"))
_STANDARD = sys.stdlib_module_names
_HELD = (classmethod, property, staticmethod, types.FunctionType)
_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: another class takes no attribute
_PRIVATE = frozenset(("__import__", "__build_class__"))
_MISSING = object()
_modules = sys.modules
_children = type.__subclasses__
_contents = type.__dict__["__dict__"].__get__
_flags = type.__dict__["__flags__"].__get__
_set_on_class, _remove_from_class = type.__setattr__, type.__delattr__

_STORE, _DELETE = _opcodes["STORE_ATTR"], _opcodes["DELETE_ATTR"]
_EXTENDED = _opcodes["EXTENDED_ARG"]
# With any of these, code can change attributes without naming them, or remove modules.
_WAYS = frozenset(
    "__delattr__ __dict__ __setattr__ compile delattr eval exec exec_module import_module mock "
    "modules monkeypatch patch run_module run_path setattr vars".split()
)
# Modules of the library do not patch others on import.
_LIBRARY = os.__file__.rpartition("/")[0] + "/"
_COMPILED_IN = frozenset(("built-in", "frozen"))
# Modules that the runner looks up before drawing or printing.
_ENTRANCES = ("matplotlib._pylab_helpers", "matplotlib.pyplot", "pandas")


class _Namespace:
    """A module or a class, and the original values of its public names."""

    __slots__ = ("held", "names", "owner", "size", "values")

    def __init__(self, owner, held, found):
        self.owner = owner
        self.held = held
        self.names = tuple(found)
        self.values = tuple(found.values())
        self.size = len(held)

    def is_changed(self):
        if self.owner is not None and len(self.held) != self.size:
            return True
        return not all(map(_is, map(self.held.get, self.names), self.values))

    def differences(self):
        """Each changed name, with its current and its original value."""
        for name, value in zip(self.names, self.values, strict=True):
            current = self.held.get(name, _MISSING)
            if current is not value:
                yield name, current, value
        if self.owner is None or len(self.held) <= self.size:
            return
        bases = mro_of(self.owner)[1:]
        for name in set(self.held).difference(self.names):
            # An inherited name is patched by adding it to the class itself.
            if _is_public(name) and any(name in _contents(base) for base in bases):
                yield name, self.held[name], _MISSING

    def value_of(self, name):
        return self.values[self.names.index(name)]

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
    __slots__ = (
        "active",
        "anything",
        "by_class",
        "by_name",
        "count",
        "entrances",
        "loaded",
        "modules",
        "seen",
        "stored",
    )

    def __init__(self):
        self.modules = None
        self.entrances = ()  # modules that are given back before all the rest
        self.seen = set()  # names of modules, which have been noted
        self.by_class = {}  # those that are classes
        self.by_name = {}  # all of them, by each of their names
        self.loaded = frozenset()  # names of all modules
        self.count = 0  # of modules, while there were only these and the library's
        self.active = None  # the outermost `restored` that is entered
        self.anything = True  # may have been patched
        self.stored = set()  # attributes that the code stores


_STATE = _State()


def seal():
    """Record everything in its original state."""
    _STATE.seen.clear()
    _STATE.by_class.clear()
    _STATE.by_name.clear()
    _STATE.stored.clear()
    _STATE.anything = False
    learn()
    entrances = {name: _modules[name] for name in _ENTRANCES if name in _modules}
    _STATE.entrances = (_Namespace(None, _modules, entrances),)
    # Except the runner, which is hidden during a run.
    _STATE.loaded = frozenset(_modules) - {"_belljar"}
    _STATE.count = _count()


def _count():
    return len(_modules) - ("_belljar" in _modules)


def _has_strangers():
    """Whether a module that may have patched others is loaded, or one has been removed."""
    count = _count()
    if count == _STATE.count:
        return False
    names = _modules.keys()
    if not names >= _STATE.loaded:
        return True
    new = names - _STATE.loaded - {"_belljar"}
    if not all(map(_is_of_library, map(_modules.get, new))):
        return True
    _STATE.count = count
    return False


def _is_of_library(module):
    """Whether it belongs to Python or to an installed library, according to itself."""
    if type(module) is not types.ModuleType:
        return False
    spec = module.__dict__.get("__spec__")
    if type(spec) is not ModuleSpec:
        return False
    origin = spec.__dict__.get("origin")
    return type(origin) is str and (origin in _COMPILED_IN or origin.startswith(_LIBRARY))


def learn():
    """Record modules imported since."""
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
    found = _found_in(held)
    for value in found.values():
        if issubclass(type(value), type) and _flags(value) & _HEAP:
            _learn_class(name, value)
    _keep(None, held, found)


def _found_in(held):
    """The patchable contents of a module, by name."""
    return {
        key: value
        for key, value in held.items()
        if (_is_public(key) or key in _PRIVATE)
        and (callable(value) or type(value) is types.ModuleType)
    }


def _learn_class(name, cls):
    if cls in _STATE.by_class or _root(getattr(cls, "__module__", None)) != _root(name):
        return
    held = _contents(cls)
    found = {key: held[key] for key in held if _is_public(key) and type(held[key]) in _HELD}
    _keep(cls, held, found)


def _root(module):
    return exact_str(module).partition(".")[0] if issubclass(type(module), str) else ""


def _keep(owner, held, found):
    space = _Namespace(owner, held, found)
    if owner is not None:
        _STATE.by_class[owner] = space
    for name in found:
        _STATE.by_name.setdefault(name, []).append(space)


def watch(program):
    """Analyze a program before it runs for attributes that it could patch."""
    if not _STATE.anything:
        for code in sources.parts(program):
            if not _WAYS.isdisjoint(code.co_names):
                _STATE.anything = True
                return
            _STATE.stored.update(_stored_by(code))


def _stored_by(code):
    """The attribute names stored by a code object, possibly with a few more."""
    operations = code.co_code[::2]
    if _STORE not in operations and _DELETE not in operations:
        return
    names, high = code.co_names, 0
    for operation, low in zip(operations, code.co_code[1::2], strict=True):
        number = high | low
        high = number << 8 if operation == _EXTENDED else 0
        if operation in (_STORE, _DELETE) and number < len(names):
            yield names[number]


def _differences_of(spaces):
    """Patches in them: the namespace, the name, the current and the original value."""
    for space in spaces:
        if space.is_changed():
            for difference in space.differences():
                yield space, *difference


def _all():
    spaces = {space for those in _STATE.by_name.values() for space in those}
    if _STATE.modules is not None:
        spaces.add(_STATE.modules)
    return spaces


def _stored():
    """The same for all names that the code stores."""
    for name in _STATE.stored:
        for space in _STATE.by_name.get(name, ()):
            yield from _difference(space, name)


def _difference(space, name):
    value = space.value_of(name)
    current = space.held.get(name, _MISSING)
    if current is not value:
        yield space, name, current, value
    if space.owner is not None:
        for cls in _subclasses(space.owner):
            heir = _STATE.by_class.get(cls)
            if heir is not None and name in heir.held and name not in heir.names:
                yield heir, name, heir.held[name], _MISSING


def _subclasses(cls):
    for one in _children(cls):
        yield one
        yield from _subclasses(one)


class restored:  # noqa: N801 (it is used like a function)
    """A context manager: names have their original values within it, and the code's afterwards.

    With `lazily`, only after `needed` was called.
    """

    __slots__ = ("_changes", "_lacks")

    def __init__(self, lazily=False):
        self._lacks = lazily
        self._changes = None

    def __enter__(self):
        if _STATE.active is not None:
            needed()
            return
        _STATE.active = self
        self._changes = []
        try:
            # Searched once: patches made by foreign modules stay when these are removed.
            _STATE.anything = _STATE.anything or _has_strangers()
            if not _STATE.anything:
                self._lacks = False
                if _STATE.stored:
                    self._restore(_stored())
            elif self._lacks:
                self._restore(_differences_of(_STATE.entrances))
            else:
                self._restore(_differences_of(_all()))
        except Exception:
            return  # such as from an audit hook; what was reached is in place

    def _restore(self, differences):
        # First find all, then change them, because the two interfere.
        for change in list(differences):
            space, name, _, value = change
            self._changes.append(change)
            space.put(name, value)

    def complete(self):
        """Restore what was postponed."""
        if self._lacks:
            self._lacks = False
            try:
                self._restore(_differences_of(_all()))
            except Exception:
                return  # as above

    def __exit__(self, *_):
        if self._changes is None:
            return
        _STATE.active = None
        while self._changes:
            space, name, current, value = self._changes.pop()
            if space.held.get(name, _MISSING) is value:
                space.put(name, current)


def needed():
    """Declare that the libraries' names will be used: within a `with` of `restored`, they have
    their original values from here to its end.
    """
    if _STATE.active is not None:
        _STATE.active.complete()
