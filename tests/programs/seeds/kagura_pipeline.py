"""Multiply each by 2, keep what is over 5, sum it."""

data = [1, 2, 3, 4, 5]
doubled = [n * 2 for n in data]
kept = [n for n in doubled if n > 5]
result = sum(kept)

# with policy: strict
# expect result: 24
