"""Gives Python code the error numbers of Linux.

The artifact's interpreter was initialized with WASI's numbers. The code that it runs with makes
errors with those of Linux, and so does the module `errno` when it is initialized again.

The numbers are replaced when this is imported, before modules that compute with them are.
"""

import gc
import sys

# Linux's names that WASI has not, with their numbers. WASI's ESHUTDOWN is EPIPE.
_OTHERS = """
    ECHRNG 44 EL2NSYNC 45 EL3HLT 46 EL3RST 47 ELNRNG 48 EUNATCH 49 ENOCSI 50 EL2HLT 51 EBADE 52
    EBADR 53 EXFULL 54 ENOANO 55 EBADRQC 56 EBADSLT 57 EDEADLOCK 35 EBFONT 59 ENOSTR 60 ENODATA 61
    ETIME 62 ENOSR 63 ENONET 64 ENOPKG 65 EREMOTE 66 EADV 68 ESRMNT 69 ECOMM 70 EDOTDOT 73
    ENOTUNIQ 76 EBADFD 77 EREMCHG 78 ELIBACC 79 ELIBBAD 80 ELIBSCN 81 ELIBMAX 82 ELIBEXEC 83
    ERESTART 85 ESTRPIPE 86 EUSERS 87 ESOCKTNOSUPPORT 94 EPFNOSUPPORT 96 ESHUTDOWN 108
    ETOOMANYREFS 109 EHOSTDOWN 112 EUCLEAN 117 ENOTNAM 118 ENAVAIL 119 EISNAM 120 EREMOTEIO 121
    ENOMEDIUM 123 EMEDIUMTYPE 124 ENOKEY 126 EKEYEXPIRED 127 EKEYREVOKED 128 EKEYREJECTED 129
    ERFKILL 132 EHWPOISON 133 ENOTBLK 15
"""


def _adopt():
    """Replace the numbers of the module `errno`, of modules that imported them, and of the table
    of subclasses of `OSError`.
    """
    before = sys.modules.pop("errno", None) or __import__("errno")
    was = dict(before.__dict__)
    sys.modules.pop("errno", None)
    now = __import__("errno").__dict__
    now["errorcode"][now["EPIPE"]] = "EPIPE"
    others = _OTHERS.split()
    for name, number in zip(others[::2], map(int, others[1::2]), strict=True):
        now[name] = number
        now["errorcode"][number] = name
    sys.modules["errno"] = before
    before.__dict__.clear()
    before.__dict__.update(now)
    names = [name for name in was if name[0] == "E" and type(was[name]) is int]
    for module in list(sys.modules.values()):
        held = getattr(module, "__dict__", {})
        for name in names:
            if module is not before and held.get(name) == was[name] and name in now:
                held[name] = now[name]
    gc.unfreeze()
    tables = [table for table in gc.get_referrers(FileNotFoundError) if _is_table(table, was)]
    if len(tables) != 1:
        raise RuntimeError("the table of OSError's subclasses is not found")
    table = dict(tables[0])
    tables[0].clear()
    for name in names:
        if name in now and was[name] in table:
            tables[0][now[name]] = table[was[name]]
    tables[0][now["ESHUTDOWN"]] = BrokenPipeError


def _is_table(candidate, was):
    return (
        type(candidate) is dict
        and candidate.get(was["ENOENT"]) is FileNotFoundError
        and candidate.get(was["EEXIST"]) is FileExistsError
    )


if sys.platform == "wasi":
    _adopt()
