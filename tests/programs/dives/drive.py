"""Has each kind of recursion in `kinds.py` go as deep as it can, and says how each of them ends."""

import functools
import os
import re
import sys

lifted, inside, most = "lifted" in sys.argv, "inside" in sys.argv, 300_000
_, *parts = re.split(r"^# kind: (.*)\n", open("kinds.py").read(), flags=re.MULTILINE)
kinds = dict(zip(parts[::2], parts[1::2], strict=True))
usual = sys.getrecursionlimit()


def end_of(dive):
    n = 1_100
    while n <= most:
        try:
            assert dive(n) == n
        except (MemoryError, RecursionError) as error:
            return str(error)
        if not lifted:
            return "deep enough"
        n *= 2
    return "no end"


def deep_in_callbacks(levels, call):
    """Calls from C that was called from C, and so on."""
    if levels == 0:
        return call()
    return functools.reduce(lambda _, less: deep_in_callbacks(less, call), (levels - 1,), None)


for name in kinds:
    exec(kinds[name], globals())
    sys.setrecursionlimit(10**7 if lifted else usual)
    # At once, as a crash would lose what Python holds back.
    os.write(1, f"{name}: ".encode())
    call = functools.partial(end_of, globals()["dive"])
    end = deep_in_callbacks(300, call) if inside else call()
    sys.setrecursionlimit(usual)
    os.write(1, f"{end}\n".encode())
