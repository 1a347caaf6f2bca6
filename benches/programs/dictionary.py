counts = {}
for i in range(150_000):
    key = f"k{i * 7919 % 1000}"
    counts[key] = counts.get(key, 0) + i
print(len(counts), max(counts.values()), sorted(counts)[:3])
