from collections import defaultdict, deque
from string import ascii_lowercase

CONSONANTS, VOWELS = "bcdfghlmnprst", "aeiou"
WORDS = {a + v + b + w for a in CONSONANTS for v in VOWELS for b in CONSONANTS[::2] for w in ("e", "y", "t", "s")}
WORDS = {word for word in WORDS if sum(map(ord, word)) % 3}


def by_pattern(words):
    patterns = defaultdict(list)
    for word in sorted(words):
        for i in range(len(word)):
            patterns[word[:i] + "_" + word[i + 1 :]].append(word)
    return patterns


def next_words(word, patterns):
    for i in range(len(word)):
        for other in patterns[f"{word[:i]}_{word[i + 1:]}"]:
            if other != word:
                yield other


def ladder(start, goal, patterns):
    came_from = {start: None}
    queue = deque([start])
    while queue:
        word = queue.popleft()
        if word == goal:
            path = []
            while word is not None:
                path.append(word)
                word = came_from[word]
            return path[::-1]
        for other in next_words(word, patterns):
            if other not in came_from:
                came_from[other] = word
                queue.append(other)
    return None


def edits(word):
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    yield from (left + right[1:] for left, right in splits if right)
    yield from (left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1)
    yield from (left + c + right[1:] for left, right in splits if right for c in ascii_lowercase)


def suggestions(word):
    return sorted({edit for edit in edits(word) if edit in WORDS})


patterns = by_pattern(WORDS)
print(len(WORDS), "words,", len(patterns), "patterns")
for start, goal in [("bade", "tust"), ("cage", "fort"), ("lime", "ruby")]:
    if start in WORDS and goal in WORDS:
        print(start, "→", goal, ":", " ".join(ladder(start, goal, patterns) or ["no way"]))
words = sorted(WORDS)
steps = [len(ladder(a, b, patterns) or ()) for a, b in zip(words[::90], words[::-90]) if a != b]
print("steps:", steps)
print({word: suggestions(word)[:4] for word in ("bsde", "cagd", "xust", "rime")})
print(sum(len(suggestions(word)) for word in words[::9]))
