"""Prepares an image for capture: installs hooks, and removes state that would not survive."""

import _sitebuiltins
import builtins
import gc
import linecache
import os
import sys

from _belljar.baking import holes, immortal
from _belljar.display import figures, fonts, notebook, showing
from _belljar.display import ipython as ipython
from _belljar.formats import feather, parquet
from _belljar.protocol import entropy, hooks, interrupt, streams
from _belljar.run import ending
from _belljar.source import namespaces, originals, sources
from _belljar.stand_ins import absent, executors, in_place, integers, loops, widened, workers

_DESCRIPTORS = range(3, 64)


def install():
    """Install the runner's hooks; modules imported later are patched on import."""
    interrupt.STATE.frame_line = sources.user_line
    interrupt.install()
    # The interpreter's own handlers would end the whole instance.
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.display = notebook.display
    streams.install()
    hooks.install()
    namespaces.install()
    ipython.install()
    showing.install()
    hooks.when_imported("matplotlib.font_manager", fonts.patch)
    hooks.when_imported("numpy", integers.patch)
    hooks.when_imported("numpy.ma.core", integers.patch_masked)
    hooks.when_imported("scipy.sparse.csgraph", integers.patch_graphs)
    hooks.when_imported("sklearn.utils.random", integers.patch_samples)
    widened.install()
    hooks.when_imported("pandas.io.parquet", parquet.patch)
    hooks.when_imported("pandas.io.feather_format", feather.patch)
    hooks.when_imported("asyncio.selector_events", loops.patch_loop)
    hooks.when_imported("shutil", absent.patch_shutil)
    hooks.when_imported("hashlib", absent.patch_hashlib)
    hooks.when_imported("numpy", absent.patch_numpy)
    hooks.when_imported("threading", in_place.patch_threading)
    hooks.when_imported("queue", in_place.patch_queue)
    hooks.when_imported("concurrent.futures._base", executors.patch_base)
    hooks.when_imported("concurrent.futures.thread", executors.patch_threads)
    hooks.when_imported("concurrent.futures.process", executors.patch_processes)
    hooks.when_imported("multiprocessing.context", workers.patch_context)
    hooks.when_imported("multiprocessing.pool", workers.patch_pool)
    hooks.when_imported("random", entropy.imported)
    hooks.when_imported("numpy.random", entropy.imported)


def seal():
    """Clean up, freeze the remaining objects, and return the open file descriptors.

    The host recognizes its own descriptors; any other would not exist after a restore.
    """
    _close_figures()
    figures.forget()
    loops.forget()
    entropy.forget()
    _forget_reports()
    streams.install()
    namespaces.seal()
    ending.seal()
    # Libraries keep per-thread state in C here, which is faster.
    hooks.when_imported("threading", in_place.patch_local)
    originals.seal()
    gc.collect()
    gc.collect()
    immortal.declare()
    # Last, because immortal objects cannot be freed.
    ending.reserve()
    holes.fill()
    gc.freeze()
    return [number for number in _DESCRIPTORS if _is_open(number)]


def _close_figures():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is not None:
        helpers.Gcf.destroy_all()


def _forget_reports():
    """Traces of the warm-up: tracebacks, source lines, and the record of shown warnings."""
    sources.forget()
    linecache.clearcache()
    getattr(linecache, "_interactive_cache", {}).clear()
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        sys.__dict__.pop(name, None)
    builtins.__dict__.pop("_", None)
    for module in list(sys.modules.values()):
        shown = getattr(module, "__dict__", {}).get("__warningregistry__")
        if type(shown) is dict:
            shown.clear()


def _is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
