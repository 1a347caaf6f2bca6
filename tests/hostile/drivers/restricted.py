"""RestrictedPython: rewritten source, with the documented guards, run in this process."""

import operator
import sys
import traceback
from importlib.metadata import version

import common
from RestrictedPython import PrintCollector, compile_restricted, safe_globals, utility_builtins
from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter
from RestrictedPython.Guards import full_write_guard, guarded_iter_unpack_sequence, safer_getattr

UPDATES = {"+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "|=": operator.ior}


def names():
    return safe_globals | {
        "__builtins__": safe_globals["__builtins__"] | utility_builtins,
        "__name__": "__main__",
        "__metaclass__": type,
        "_print_": PrintCollector,
        "_getattr_": safer_getattr,
        "_getitem_": default_guarded_getitem,
        "_getiter_": default_guarded_getiter,
        "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
        "_write_": full_write_guard,
        "_inplacevar_": lambda op, a, b: UPDATES[op](a, b),
        "lookup": common.lookup,
    }


def run(code, variables):
    try:
        exec(compile_restricted(code, "<string>", "exec"), variables)
        ended, error = "ok", None
    except BaseException as failure:
        ended, error = common.kind(failure)
        if not isinstance(failure, SyntaxError):
            traceback.print_exc(limit=3, file=sys.stderr)
    printed = variables.get("_print")
    return ended, printed() if callable(printed) else "", error, variables.get("result")


variables = {}
for code, who in common.parts():
    shared = variables.setdefault(who, names())
    common.reply(f"RestrictedPython {version('RestrictedPython')}", lambda: run(code, shared))
