# aim = "answer"
# tries = "Nests as deep as its own writer goes, which is deeper than the reader."
import sys

sys.setrecursionlimit(20_000)
result = []
for _ in range(9_000):
    result = [result]
