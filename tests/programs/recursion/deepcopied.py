import copy
import sys

sys.setrecursionlimit(10**9)
nested = []
for _ in range(100_000):
    nested = [nested]
print(len(copy.deepcopy(nested)))
