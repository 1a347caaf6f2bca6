import math
import random

random.seed(31)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def standardize(rows):
    columns = list(zip(*rows))
    means = [sum(column) / len(column) for column in columns]
    deviations = [
        math.sqrt(sum((x - mean) ** 2 for x in column) / len(column)) for column, mean in zip(columns, means)
    ]
    return [[1.0] + [(x - m) / d for x, m, d in zip(row, means, deviations)] for row in rows]


def logistic(rows, labels, rate=0.5, epochs=70):
    weights = [0.0] * len(rows[0])
    for epoch in range(epochs):
        gradient, loss = [0.0] * len(weights), 0.0
        for row, label in zip(rows, labels):
            predicted = sigmoid(dot(weights, row))
            loss -= math.log(max(predicted if label else 1 - predicted, 1e-12))
            for i, x in enumerate(row):
                gradient[i] += (predicted - label) * x
        weights = [w - rate * g / len(rows) for w, g in zip(weights, gradient)]
        if epoch % 10 == 0:
            print(f"epoch {epoch:3d} loss {loss / len(rows):.5f}")
    return weights


def minimize(function, start, rate=1e-3, steps=4000, h=1e-6):
    point = list(start)
    for _ in range(steps):
        value = function(*point)
        slopes = []
        for i in range(len(point)):
            moved = point[:]
            moved[i] += h
            slopes.append((function(*moved) - value) / h)
        point = [p - rate * max(-10.0, min(10.0, s)) for p, s in zip(point, slopes)]
    return point


rows, labels = [], []
for _ in range(400):
    age, income, visits = random.gauss(40, 12), random.lognormvariate(3, 0.4), random.randrange(20)
    rows.append([age, income, visits])
    labels.append(int(0.05 * age - 0.1 * income + 0.2 * visits + random.gauss(0, 1) > 2.0))
rows = standardize(rows)
weights = logistic(rows, labels)
right = sum((dot(weights, row) > 0) == bool(label) for row, label in zip(rows, labels))
print("weights:", [round(weight, 4) for weight in weights], "accuracy:", right / len(rows))
print("rosenbrock:", [round(x, 3) for x in minimize(lambda x, y: (1 - x) ** 2 + 100 * (y - x * x) ** 2, (-1.2, 1.0))])
