import sys

sys.setrecursionlimit(10**9)
print(compile("a" + ".b" * 1_000_000, "<deep>", "eval") is not None)
