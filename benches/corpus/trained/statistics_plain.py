import math
import statistics

values = [math.sin(i) * 10 + i % 13 for i in range(4_000)]
mean = sum(values) / len(values)
variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
ordered = sorted(values)
quartiles = [ordered[len(ordered) * k // 4] for k in (1, 2, 3)]
histogram = {}
for v in values:
    histogram[math.floor(v / 5)] = histogram.get(math.floor(v / 5), 0) + 1
moving = [sum(values[i : i + 10]) / 10 for i in range(0, 2_000)]
xs = range(len(values))
slope = sum((x - 1999.5) * (v - mean) for x, v in zip(xs, values)) / sum((x - 1999.5) ** 2 for x in xs)
print(round(mean, 6), round(math.sqrt(variance), 6), [round(q, 4) for q in quartiles], sorted(histogram.items()))
print(round(slope, 9), round(max(moving), 4), round(statistics.pstdev(values[:300]), 5), math.isclose(1e-9, 1e-9))
