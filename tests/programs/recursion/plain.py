"""Endless recursion, with Python's own limit on it lifted."""

import sys

sys.setrecursionlimit(10**9)


def down():
    return down()


down()
