import re
from collections import Counter

TEXT = """It was the best of times, it was the worst of times, it was the age of wisdom, it was the
age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season
of Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair."""

words = re.findall(r"[a-z']+", (TEXT * 60).lower())
counts = Counter(words)
pairs = Counter(zip(words, words[1:]))
lengths = Counter(map(len, words))
stop = {"it", "was", "the", "of"}
rest = [(w, n) for w, n in counts.most_common() if w not in stop]
print(counts.most_common(4), pairs.most_common(2), sorted(lengths.items()), rest[:3])
