import re
import sys

sys.setrecursionlimit(10**9)
print(re.compile("(" * 100_000 + "a" + ")" * 100_000) is not None)
