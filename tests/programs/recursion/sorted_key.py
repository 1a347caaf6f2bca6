"""A key function that sorts, with itself as the key: every level goes through C."""

import sys

sys.setrecursionlimit(10**9)


def key(value):
    return sorted([value, value], key=key)


key(1)
