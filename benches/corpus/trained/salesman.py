import math
import random

random.seed(8)


def make_cities(count):
    return {f"city{i:02d}": (random.randint(0, 1000), random.randint(0, 1000)) for i in range(count)}


def distances(cities):
    return {(a, b): math.dist(cities[a], cities[b]) for a in cities for b in cities}


def length(tour, distance):
    return sum(distance[a, b] for a, b in zip(tour, tour[1:] + tour[:1]))


def nearest_neighbour(start, cities, distance):
    left, tour = set(cities) - {start}, [start]
    while left:
        city = min(left, key=lambda other: (distance[tour[-1], other], other))
        left.remove(city)
        tour.append(city)
    return tour


def two_opt(tour, distance):
    improved = True
    while improved:
        improved = False
        for i in range(len(tour) - 2):
            for j in range(i + 2, len(tour) - (i == 0)):
                a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % len(tour)]
                if distance[a, c] + distance[b, d] < distance[a, b] + distance[c, d] - 1e-9:
                    tour[i + 1 : j + 1] = reversed(tour[i + 1 : j + 1])
                    improved = True
    return tour


def anneal(tour, distance, steps=20_000):
    best, current, temperature = tour[:], length(tour, distance), 120.0
    shortest = current
    for _ in range(steps):
        i, j = sorted(random.sample(range(len(tour)), 2))
        candidate = tour[:i] + tour[i : j + 1][::-1] + tour[j + 1 :]
        a, b = tour[i - 1], tour[(j + 1) % len(tour)]
        change = distance[a, tour[j]] + distance[tour[i], b] - distance[a, tour[i]] - distance[tour[j], b]
        if (i, j) != (0, len(tour) - 1) and (change < 0 or random.random() < math.exp(-change / temperature)):
            tour, current = candidate, current + change
            if current < shortest:
                best, shortest = tour, current
        temperature *= 0.9997
    return best


cities = make_cities(32)
distance = distances(cities)
greedy = min((nearest_neighbour(city, cities, distance) for city in cities), key=lambda tour: length(tour, distance))
print("nearest neighbour:", round(length(greedy, distance), 2))
print("two-opt:", round(length(two_opt(greedy[:], distance), distance), 2))
print("annealing:", round(length(anneal(greedy[:], distance), distance), 2))
