"""The user's `__main__`, its import path and its surroundings."""

import builtins
import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

from _belljar.protocol import guard, paths

_chdir, _getcwd = os.chdir, os.getcwd
_modules = sys.modules
MAIN = sys.modules["__main__"]
GLOBALS = MAIN.__dict__
_KEPT = frozenset(("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"))


class _State:
    __slots__ = ("lent", "path", "roots", "workspace")

    def __init__(self):
        self.lent = {}  # what the variables of this run were before
        self.path = None
        self.roots = None  # as the host gave them
        self.workspace = None


_STATE = _State()


def seal():
    """Empty `__main__` and note the import path that every run starts from."""
    clear()
    _STATE.path = list(sys.path)
    for path in list(sys.path_importer_cache):
        if path not in sys.path:
            del sys.path_importer_cache[path]


def clear():
    """Drop what the code left in `__main__`, as the end of a process does."""
    for name in [name for name in GLOBALS if name not in _KEPT]:
        GLOBALS.pop(name, None)


def prepare(request, limited_builtins):
    """Make `__main__`, the environment and the import path what this run asked for."""
    _modules["__main__"] = MAIN
    GLOBALS["__name__"] = "__main__"
    GLOBALS["__doc__"] = None
    GLOBALS["__builtins__"] = builtins if limited_builtins is None else limited_builtins
    if request["env"]:
        guard.quietly(os.environ.update, request["env"])
    if request["run_env"]:
        guard.quietly(_lend, request["run_env"])
    cwd = request["cwd"]
    _enter(cwd, request["workspace"][0])
    if request["workspace"] is not _STATE.roots:
        _STATE.roots = request["workspace"]
        _STATE.workspace = tuple(f"{path.rstrip('/')}/" for path in _STATE.roots)
    sys.argv = request["argv"].copy()
    if _STATE.path is None:
        _STATE.path = list(sys.path)
    wanted = [cwd, *_STATE.path]
    wanted += [path for path in request["packages"] if path not in wanted]
    if not request["session"]:
        sys.path[:] = wanted
    else:
        missing = [path for path in wanted if path not in sys.path]
        if missing:
            sys.path += missing


def _enter(cwd, workspace):
    # The workspace is always there, other directories the code may have removed. Where it is the
    # interpreter knows by itself; to change that it asks the host.
    if cwd == workspace == _getcwd():
        return
    try:
        _chdir(cwd)
    except FileNotFoundError:
        os.makedirs(cwd, exist_ok=True)
        _chdir(cwd)


def _lend(variables):
    """Set environment variables for this run."""
    _STATE.lent = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)


def take_back():
    """Make what was set for a run what it was before."""
    lent, _STATE.lent = _STATE.lent, {}
    for name, value in lent.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class WorkspaceFinder(FileFinder):
    """Looks at the directory each time: code imports what it wrote a moment ago.

    The usual finder trusts its listing while the directory's time stamp stays the same, which
    it may do for two changes in a row.
    """

    def find_spec(self, name, target=None):
        self.invalidate_caches()
        return super().find_spec(name, target)


def finder(path):
    """The path hook for the workspace and the directories in it."""
    if _STATE.workspace is None or not f"{path}/".startswith(_STATE.workspace):
        raise ImportError("not in the workspace", path=path)
    if not paths.is_directory(path):
        raise ImportError("not a directory", path=path)
    return WorkspaceFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))


def install():
    """Make modules of the workspace importable, in whatever state its files are."""
    if finder not in sys.path_hooks:
        sys.path_hooks.insert(0, finder)
