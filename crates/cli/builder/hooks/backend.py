"""Calls a build backend: `backend.py BACKEND PATH (requires|wheel) TARGET SETTINGS`."""

import importlib
import json
import os
import sys


def main():
    name, path, step, target, settings = sys.argv[1:]
    sys.path[0:1] = [os.path.abspath(folder) for folder in path.split(os.pathsep) if folder]
    # Backends read the arguments of the process.
    sys.argv[1:] = []
    module, _, attribute = name.partition(":")
    backend = importlib.import_module(module)
    for part in attribute.split(".") if attribute else []:
        backend = getattr(backend, part)
    settings = json.loads(settings) or None
    if step == "wheel":
        backend.build_wheel(target, settings)
        return
    ask = getattr(backend, "get_requires_for_build_wheel", lambda settings: [])
    with open(target, "w") as file:
        json.dump(ask(settings), file)


main()
