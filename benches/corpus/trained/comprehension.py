data = [(i, i % 7, str(i)) for i in range(8_000)]
squares = {n: n * n for n, _, _ in data if n % 3 == 0}
letters = {text[-1] for _, _, text in data}
nested = [[a * b for a in range(12)] for b in range(60)]
flat = [x for row in nested for x in row if x % 2]
pairs = [(a, b) for a in range(80) for b in range(a) if (a + b) % 5 == 0]
transposed = list(zip(*nested))
total = sum(n for n, r, _ in data if r == 2)
print(len(squares), sorted(letters), len(flat), len(pairs), len(transposed), total)
print(all(x < 800 for x in flat), any(x > 600 for x in flat), max(len(t) for _, _, t in data))
