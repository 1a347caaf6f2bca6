"""Errors while handling errors."""

import sys

sys.setrecursionlimit(10**9)


def fail(n):
    try:
        raise ValueError(n)
    except ValueError:
        if n < 100_000:
            fail(n + 1)
        raise KeyError(n) from None


fail(0)
