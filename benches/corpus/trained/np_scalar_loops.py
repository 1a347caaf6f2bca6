import numpy as np

values = np.linspace(0, 10, 3_000)
total, best = 0.0, -1.0
for i, v in enumerate(values):
    total += v * values[i - 1]
    best = max(best, values[i])
matrix = np.zeros((40, 40), dtype=int)
for y in range(40):
    for x in range(40):
        matrix[y, x] = (x * y) % 7
small = [np.array([i, i + 1.0]) for i in range(1_500)]
lengths = [float(np.sqrt((v**2).sum())) for v in small]
print(round(total, 4), best, matrix.sum(), round(sum(lengths), 4), np.array(lengths).round(2)[:3])
