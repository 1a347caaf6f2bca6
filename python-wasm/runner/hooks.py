"""Patches that wait for a module: applied when it is imported, whether at bake or in a run."""

import sys
from importlib.machinery import ModuleSpec

_waiting = {}
_done = set()


def when_imported(name, action):
    """Call `action(module)` once `name` has been executed; now, if it was before.

    One action for a name, and one call of it: to ask again changes nothing.
    """
    if name in _done:
        return
    module = sys.modules.get(name)
    if module is None:
        _waiting[name] = action
        return
    _waiting.pop(name, None)
    _done.add(name)
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
        action = _waiting.pop(module.__name__, None)
        if action is not None:
            _done.add(module.__name__)
            action(module)


class _Finder:
    """First on `sys.meta_path`, so it is asked only about modules that are not loaded yet."""

    @staticmethod
    def find_spec(name, path=None, target=None):
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
