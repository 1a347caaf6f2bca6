import sys

sys.setrecursionlimit(10**9)
lines = [" " * level + "if 1:\n" for level in range(5000)]
exec("".join(lines) + " " * 5000 + "pass\n")
