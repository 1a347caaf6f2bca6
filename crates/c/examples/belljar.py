"""Calls the library from Python by ctypes, without any package: python3 belljar.py LIBRARY."""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.belljar_outcome_json.restype = ctypes.c_char_p


class Callbacks(ctypes.Structure):
    """`belljar_callbacks`."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("event", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)),
        ("tools", ctypes.c_char_p),
        ("call", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("interrupt", ctypes.c_void_p),
    ]


def call(name, *arguments):
    """Calls a function that returns its error."""
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    error = function(*arguments)
    if error:
        text = ctypes.string_at(error).decode()
        library.belljar_string_free(ctypes.c_void_p(error))
        raise RuntimeError(json.loads(text)["message"])


def main():
    """Runs a program, and shows its events and its outcome."""
    runtime, outcome = ctypes.c_void_p(), ctypes.c_void_p()
    call("belljar_runtime_new", None, None, ctypes.byref(runtime))
    seen = []
    event = Callbacks._fields_[1][1](lambda _, text: seen.append(json.loads(text)["type"]))
    callbacks = Callbacks(event=event)
    request = json.dumps({"code": "print(sum(range(10)))"}).encode()
    call("belljar_run", runtime, request, ctypes.byref(callbacks), ctypes.byref(outcome))
    document = json.loads(library.belljar_outcome_json(outcome))
    print(document["stdout"], end="")
    print(*seen)
    try:
        call("belljar_run", runtime, b'{"cod": ""}', None, ctypes.byref(outcome))
    except RuntimeError as error:
        print(error)
    library.belljar_outcome_free(outcome)
    library.belljar_runtime_free(runtime)


main()
