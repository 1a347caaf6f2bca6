"""The user's `__main__`, its import path and its environment."""

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
    """Clear `__main__` and record the import path that every run starts with."""
    clear()
    _STATE.path = list(sys.path)
    for path in list(sys.path_importer_cache):
        if path not in sys.path:
            del sys.path_importer_cache[path]


def clear():
    """Drop the code's globals, as at the end of a process."""
    for name in [name for name in GLOBALS if name not in _KEPT]:
        GLOBALS.pop(name, None)


def prepare(request, limited_builtins):
    """Set up `__main__`, the environment and the import path for this run."""
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
    # The workspace always exists; the code may have removed other directories. Reading the current
    # directory needs no call of the host, changing it does.
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
    """Restore the variables set for a run."""
    lent, _STATE.lent = _STATE.lent, {}
    for name, value in lent.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class WorkspaceFinder(FileFinder):
    """Lists the directory each time: code imports modules that it has just written.

    The usual finder caches its listing while the directory's timestamp is unchanged, which can miss
    two changes in a row.
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
    """Make modules of the workspace importable, after any change of its files."""
    if finder not in sys.path_hooks:
        sys.path_hooks.insert(0, finder)
