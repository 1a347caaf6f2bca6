"""Endless recursion under Python's own limit: an exception that can be caught."""


def down(n):
    return down(n + 1)


try:
    down(0)
except RecursionError as error:
    print(f"caught: {error}")
