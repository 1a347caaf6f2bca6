import sys

sys.setrecursionlimit(10**9)
types = (int,)
for _ in range(1_000_000):
    types = (types,)
print(isinstance("", types))
