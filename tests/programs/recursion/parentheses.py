"""An expression that is nested too deep for a parser."""

import ast
import sys

sys.setrecursionlimit(10**9)
print(ast.literal_eval("[" * 100_000 + "]" * 100_000) is not None)
