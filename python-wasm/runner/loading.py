"""Loads the runner's modules on first import, starting with `entry`.

The order follows from the imports. Modules imported only inside functions stay compressed until a
run needs them: file formats, for example, which most runs never use.

The modules share a private copy of the builtins, so that code that replaces `builtins.len` later
does not affect them. Its `__import__` finds them, because they are never in `sys.modules`.
"""

import builtins
import marshal
import sys
import types
import zlib

_PACKAGE = "_belljar"
_usual_import = builtins.__import__
_compress, _decompress = zlib.compress, zlib.decompress
_dumps, _loads = marshal.dumps, marshal.loads


def load(sources):
    """Load the runner from its sources, by dotted module name, and publish its functions."""
    package = types.ModuleType(_PACKAGE)
    package.__path__ = []
    package.__package__ = _PACKAGE
    sys.modules[_PACKAGE] = package
    modules = Modules(sources)
    modules.get("entry").publish(package)
    modules.compress()


class Modules:
    """The runner's modules: executed, being executed, or still source or compressed code."""

    def __init__(self, sources):
        self._waiting = dict(sources)
        self._loading = []
        self._loaded = {}
        self._folders = {
            folder: types.ModuleType(f"{_PACKAGE}.{folder}")
            for folder in {name.rpartition(".")[0] for name in sources} - {""}
        }
        self._builtins = {**builtins.__dict__, "__import__": self._import}

    def get(self, name):
        """The module of that name, executed if necessary."""
        module = self._loaded.get(name)
        if module is not None:
            return module
        if name in self._loading:
            circle = [*self._loading[self._loading.index(name) :], name]
            raise ImportError(f"the runner's modules import in a circle: {' -> '.join(circle)}")
        if name not in self._waiting:
            raise ImportError(f"the runner has no module {name!r}")
        self._loading.append(name)
        try:
            module = self._execute(name)
        finally:
            self._loading.pop()
        self._loaded[name] = module
        del self._waiting[name]
        return module

    def compress(self):
        """Keep modules that are not yet imported as compressed code, instead of their source."""
        for name, source in self._waiting.items():
            self._waiting[name] = _compress(_dumps(_compiled(name, source)), 9)

    def _execute(self, name):
        source = self._waiting[name]
        code = _loads(_decompress(source)) if type(source) is bytes else _compiled(name, source)
        folder, _, own = name.rpartition(".")
        module = types.ModuleType(f"{_PACKAGE}.{name}")
        module.__package__ = f"{_PACKAGE}.{folder}" if folder else _PACKAGE
        module.__file__ = code.co_filename
        module.__builtins__ = self._builtins
        exec(code, module.__dict__)
        if folder:
            setattr(self._folders[folder], own, module)
        return module

    def _import(self, name, names=None, around=None, wanted=(), level=0):
        """`__import__` of the runner: `from _belljar.folder import module`, or the usual one."""
        package, _, rest = name.partition(".")
        if package != _PACKAGE:
            return _usual_import(name, names, around, wanted, level)
        folder = self._folders.get(rest)
        if folder is None:
            return self.get(rest)
        for module in wanted:
            self.get(f"{rest}.{module}")
        return folder


def _compiled(name, source):
    path = f"<belljar>/{name.replace('.', '/')}.py"
    return compile(source, path, "exec", dont_inherit=True)
