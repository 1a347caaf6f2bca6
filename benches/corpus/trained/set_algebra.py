a = {n * n % 10_007 for n in range(6_000)}
b = {n * n * n % 10_007 for n in range(6_000)}
c = frozenset(range(0, 10_007, 3))
print(len(a & b), len(a | b), len(a - b), len(a ^ b), a.isdisjoint(c), len(a.intersection(b, c)))
seen, twice = set(), set()
for n in range(40_000):
    key = (n * 17) % 25_000
    if key in seen:
        twice.add(key)
    seen.add(key)
print(len(seen), len(twice), {frozenset((x % 3, x % 5)) for x in range(500)} >= {frozenset((0,))})
