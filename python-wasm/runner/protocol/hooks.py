"""Patches that wait for a module: applied when it is imported, whether at bake or in a run."""

import sys
from importlib.machinery import ModuleSpec

from _belljar.protocol import door

# By the name of a module, the actions that wait for it, in the order in which they were asked for.
_waiting = {}
# In the library lies a client of another host's protocol, which nobody answers here. Where a run
# has tools, `tools` puts a package of its own in that place.
_FOREIGN = "host"
_asked = set()
# What calls compiled code that the host may not have, and what a bundle may be made without: the
# host is asked before one of them is imported, and either has it, begins the run again where it
# does, or says why not. It has the same list.
_UNSURE = frozenset((
    "PIL", "bs4", "contourpy", "fontTools", "formulaic", "isympy", "joblib", "kiwisolver", "lxml",
    "matplotlib", "mpl_toolkits", "mpmath", "narwhals", "networkx", "numpy", "openpyxl", "pandas",
    "patsy", "pylab", "pypdf", "regex", "reportlab", "scipy", "seaborn", "sklearn", "statsmodels",
    "sympy", "xlsxwriter",
))  # fmt: skip
_ASK = b"m"


def when_imported(name, action):
    """Call `action(module)` once `name` has been executed; now, if it was before.

    To ask again for the same action changes nothing.
    """
    if (name, action) in _asked:
        return
    _asked.add((name, action))
    module = sys.modules.get(name)
    if module is None:
        _waiting.setdefault(name, []).append(action)
        return
    _act(name, module)
    action(module)


def _act(name, module):
    for action in _waiting.pop(name, ()):
        action(module)


class _Loader:
    """A module's own loader, and the action after it."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        spec = module.__spec__
        if type(spec) is ModuleSpec and spec.loader is self:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _act(module.__name__, module)


def look_only():
    """From here on, modules are looked for and not imported."""
    global _UNSURE
    _UNSURE = frozenset()


def _own(name, path, target):
    """A module of that name that is the code's own, and not the one in the library."""
    for finder in sys.meta_path:
        if finder is not _Finder:
            spec = finder.find_spec(name, path, target)
            if spec is not None and type(spec.loader).__name__ != "zipimporter":
                return spec
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Finder:
    """First on `sys.meta_path`, so it is asked only about modules that are not loaded yet."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == _FOREIGN:
            return _own(name, path, target)
        if name in _UNSURE:
            refusal = door.answer_to(_ASK, name)
            if refusal:
                raise ModuleNotFoundError(refusal.decode(), name=name)
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is _Finder:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def install():
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
