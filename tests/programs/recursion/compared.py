import sys

sys.setrecursionlimit(10**9)
left, right = [], []
for _ in range(1_000_000):
    left, right = [left], [right]
print(left == right)
