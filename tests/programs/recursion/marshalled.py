import marshal
import sys

sys.setrecursionlimit(10**9)
nested = []
for _ in range(1_000_000):
    nested = [nested]
print(len(marshal.dumps(nested)))
