import random

random.seed(11)
TARGET = "to be or not to be"
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def fitness(text):
    return sum(a == b for a, b in zip(text, TARGET))


def mutate(text, rate=0.03):
    return "".join(random.choice(LETTERS) if random.random() < rate else c for c in text)


def cross(a, b):
    at = random.randrange(len(a))
    return a[:at] + b[at:]


population = ["".join(random.choices(LETTERS, k=len(TARGET))) for _ in range(60)]
for generation in range(40):
    population.sort(key=fitness, reverse=True)
    best = population[:15]
    population = best + [mutate(cross(*random.sample(best, 2))) for _ in range(45)]
print(generation, fitness(population[0]), population[0])
