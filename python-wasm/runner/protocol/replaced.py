"""Hides packages of the library that packages of the image replace.

The library's archive comes before `/packages` on the import path, so no package can hide a module
of the standard library. Hidden files are missing from what is read of the archive instead: by its
importer, and by `importlib.metadata`.
"""

import os
import re
import sys
import zipimport

from _belljar.protocol import hooks

_ARCHIVE = os.__file__.rpartition("/")[0]
_packages = set()
_modules = set()


def hide(replaced):
    """Hide packages, given as their normalized names and their top-level modules."""
    for package, modules in replaced:
        _packages.add(package)
        _modules.update(modules)
    # They may not need what the library's need.
    hooks.never_ask(_modules)
    usual = zipimport._read_directory
    zipimport._read_directory = lambda archive: _without_hidden(archive, usual(archive))
    for importer in list(sys.path_importer_cache.values()):
        if isinstance(importer, zipimport.zipimporter):
            importer.invalidate_caches()
    hooks.when_imported("importlib.metadata", _patch_metadata)


def is_replaced(module):
    """Whether a top-level module is not the library's."""
    return module in _modules


def _patch_metadata(module):
    usual = module.FastPath.zip_children
    module.FastPath.zip_children = lambda path: _without_hidden(path.root, usual(path))


def _without_hidden(archive, files):
    if archive != _ARCHIVE:
        return files
    return {path: entry for path, entry in files.items() if not _is_hidden(path)}


def _is_hidden(path):
    name = path.partition("/")[0]
    if name.endswith(".dist-info"):
        return re.sub(r"[-_.]+", "-", name.partition("-")[0]).lower() in _packages
    return name.partition(".")[0] in _modules
