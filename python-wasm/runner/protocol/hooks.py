"""Patches applied when a module is imported, while baking or in a run."""

import sys
from importlib.machinery import ModuleSpec

from _belljar.protocol import door

# Actions by module name, in the order in which they were registered.
_waiting = {}
# The library contains a client for another host's protocol, which is not supported here. In a run
# with tools, `tools` puts its own package in that place.
_FOREIGN = "host"
_asked = set()
# Modules with compiled code that the host may lack, and those that a bundle may leave out: the host
# is asked before they are imported, and either has them, restarts the run with them, or says why
# not. It has the same list.
_UNSURE = frozenset((
    "PIL", "bs4", "contourpy", "fontTools", "formulaic", "isympy", "joblib", "kiwisolver", "lxml",
    "matplotlib", "mpl_toolkits", "mpmath", "narwhals", "networkx", "numpy", "openpyxl", "pandas",
    "patsy", "pylab", "pypdf", "regex", "reportlab", "scipy", "seaborn", "sklearn", "statsmodels",
    "sympy", "xlsxwriter",
))  # fmt: skip
_ASK = b"m"


def when_imported(name, action):
    """Call `action(module)` once `name` has been executed; now, if it already was.

    Registering the same action again has no effect.
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


def as_part_of(module, function):
    """The function with a file name next to the module.

    matplotlib attributes a warning to the first frame outside of its own directory.
    """
    code = function.__code__
    folder = module.__file__.rpartition("/")[0]
    function.__code__ = code.replace(co_filename=f"{folder}/{code.co_filename}")
    return function


def _act(name, module):
    for action in _waiting.pop(name, ()):
        action(module)


class _Loader:
    """A module's own loader, followed by the action."""

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


def never_ask(names):
    """Import these modules without asking the host."""
    global _UNSURE
    _UNSURE -= names


def look_only():
    """From here on, modules are looked up but not imported."""
    global _UNSURE
    _UNSURE = frozenset()


def _own(name, path, target):
    """The code's own module of that name, not the library's."""
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
