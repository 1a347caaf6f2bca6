import random

random.seed(7)
inside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(40_000))
deck = [f"{rank}{suit}" for rank in "23456789TJQKA" for suit in "SHDC"]
pairs = 0
for _ in range(600):
    hand = random.sample(deck, 5)
    pairs += len({card[0] for card in hand}) < 5
random.shuffle(deck)
walk = [0]
for _ in range(6_000):
    walk.append(walk[-1] + random.choice((-1, 1)))
rolls = [random.randint(1, 6) for _ in range(6_000)]
print(4 * inside / 40_000, pairs, deck[:3], max(walk), sum(rolls), round(random.gauss(0, 1), 6))
