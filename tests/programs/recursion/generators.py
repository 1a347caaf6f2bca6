import sys

sys.setrecursionlimit(10**9)


def down(n):
    yield n
    yield from down(n + 1)


for _ in down(0):
    pass
