import random
from collections import defaultdict

random.seed(9)
TEXT = "the cat sat on the mat and the dog sat on the log while the bird sang in the tall old tree " * 40
words = TEXT.split()
chain = defaultdict(list)
for a, b, c in zip(words, words[1:], words[2:]):
    chain[a, b].append(c)
state, output = ("the", "cat"), []
for _ in range(6_000):
    following = random.choice(chain[state] or words)
    output.append(following)
    state = (state[1], following)
grams = defaultdict(int)
for i in range(len(TEXT) - 3):
    grams[TEXT[i : i + 3]] += 1
print(" ".join(output[:8]), len(chain), max(grams.items(), key=lambda item: (item[1], item[0])))
