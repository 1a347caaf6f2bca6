import math
import re
from collections import Counter, defaultdict

STOP = {"the", "a", "of", "and", "to", "in", "is", "for", "on", "with", "by", "from"}
SUBJECTS = ["market", "climate", "engine", "music", "garden", "library", "satellite", "kitchen", "museum", "river"]
VERBS = ["improves", "reports", "explains", "measures", "opens", "builds", "loses", "wins"]
TAILS = ["a new record", "the old bridge", "its budget for the year", "better data from the city", "a long history of art"]


def documents(count):
    for i in range(count):
        sentences = []
        for k in range(6):
            n = i * 31 + k * 17
            subject, other = SUBJECTS[n % 10], SUBJECTS[n // 7 % 10]
            sentences.append(f"The {subject} {VERBS[n % 8]} {TAILS[n // 3 % 5]} with the {other} of number {n % 13}.")
        yield " ".join(sentences)


def words(text):
    return [word for word in re.findall(r"[a-z]+|\d+", text.lower()) if word not in STOP]


class Index:
    def __init__(self, texts):
        self.counts = [Counter(words(text)) for text in texts]
        self.postings = defaultdict(set)
        for number, count in enumerate(self.counts):
            for word in count:
                self.postings[word].add(number)
        self.vectors = [self.vector(count) for count in self.counts]

    def idf(self, word):
        return math.log((1 + len(self.counts)) / (1 + len(self.postings.get(word, ())))) + 1

    def vector(self, count):
        weights = {word: (1 + math.log(n)) * self.idf(word) for word, n in count.items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / norm for word, weight in weights.items()}

    def search(self, query, limit=3):
        vector = self.vector(Counter(words(query)))
        candidates = set().union(*(self.postings.get(word, ()) for word in vector))
        scored = []
        for number in candidates:
            document = self.vectors[number]
            score = sum(weight * document.get(word, 0.0) for word, weight in vector.items())
            scored.append((-score, number))
        return [(number, round(-score, 4)) for score, number in sorted(scored)[:limit]]


index = Index(documents(800))
print(len(index.postings), "words in", len(index.vectors), "documents")
for query in ["satellite data", "the music museum wins a record", "old bridge river 7", "unknown words"]:
    print(f"{query:<32}", index.search(query))
similar = max(
    ((sum(w * index.vectors[b].get(t, 0) for t, w in index.vectors[a].items()), a, b) for a in range(40) for b in range(a)),
)
print("most similar:", similar[1:], round(similar[0], 3))
