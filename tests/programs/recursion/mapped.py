"""Iterators in iterators: the innermost is reached through a million C frames."""

import sys

sys.setrecursionlimit(10**9)
iterator = iter([1])
for _ in range(1_000_000):
    iterator = map(abs, iterator)
print(next(iterator))
