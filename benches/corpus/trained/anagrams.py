from collections import defaultdict
from itertools import permutations

words = ["".join(p) for p in permutations("aeinrst", 5)] + ["listen", "silent", "enlist"] * 100
groups = defaultdict(set)
for word in words:
    groups["".join(sorted(word))].add(word)
largest = max(groups.values(), key=len)
print(len(groups), len(largest), sorted(largest)[:5])
