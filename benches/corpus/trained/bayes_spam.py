import math
import random
from collections import Counter

random.seed(99)
HAM = "meeting report lunch project schedule thanks team draft review notes budget update client call monday".split()
SPAM = "winner free prize click offer cash now limited money bonus urgent cheap deal credit guaranteed".split()
COMMON = "hello please the your and for today we you this is with".split()


def message(is_spam):
    main, other = (SPAM, HAM) if is_spam else (HAM, SPAM)
    chosen = random.choices(main, k=7) + random.choices(COMMON, k=6) + random.choices(other, k=2)
    random.shuffle(chosen)
    text = " ".join(chosen).capitalize()
    return text + ("!!!" if is_spam and random.random() < 0.6 else "."), is_spam


class NaiveBayes:
    def __init__(self, smoothing=1.0):
        self.smoothing = smoothing
        self.words = {True: Counter(), False: Counter()}
        self.messages = Counter()

    @staticmethod
    def tokens(text):
        marks = "!" * text.count("!")
        return [word.strip(".!,").lower() for word in text.split()] + list(marks)

    def fit(self, examples):
        for text, label in examples:
            self.messages[label] += 1
            self.words[label].update(self.tokens(text))
        self.vocabulary = set(self.words[True]) | set(self.words[False])
        self.totals = {label: sum(counts.values()) for label, counts in self.words.items()}
        return self

    def score(self, text, label):
        total = math.log(self.messages[label] / self.messages.total())
        size = self.totals[label] + self.smoothing * len(self.vocabulary)
        for word in self.tokens(text):
            total += math.log((self.words[label][word] + self.smoothing) / size)
        return total

    def predict(self, text):
        return self.score(text, True) > self.score(text, False)


data = [message(random.random() < 0.4) for _ in range(3600)]
train, test = data[:2600], data[2600:]
model = NaiveBayes().fit(train)
confusion = Counter((label, model.predict(text)) for text, label in test)
precision = confusion[True, True] / (confusion[True, True] + confusion[False, True])
recall = confusion[True, True] / (confusion[True, True] + confusion[True, False])
print(dict(sorted(confusion.items())))
print(f"precision {precision:.3f}, recall {recall:.3f}, f1 {2 * precision * recall / (precision + recall):.3f}")
telling = sorted(model.vocabulary, key=lambda w: (model.words[True][w] + 1) / (model.words[False][w] + 1))
print("ham:", telling[:4], "spam:", telling[-4:])
for text in ("Free money for your team", "Please review the budget notes", "Urgent: client call!"):
    print(f"{text!r:<36} {'spam' if model.predict(text) else 'ham'}")
