"""Functions that call each other from C."""

import functools
import sys

sys.setrecursionlimit(10**9)
loop = []
call = functools.partial(lambda f: f[0](f), loop)
loop.append(lambda f: functools.reduce(lambda a, b: f[0](f), [1, 2]))
call()
