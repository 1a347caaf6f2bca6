import json
import sys

sys.setrecursionlimit(10**9)
print(json.loads("[" * 1_000_000 + "]" * 1_000_000) is not None)
