"""An expression whose tree is deep, and whose text is not nested."""

import sys

sys.setrecursionlimit(10**9)
print(eval("-" * 1_000_000 + "1"))
