import operator
from functools import reduce
from itertools import accumulate, chain, combinations, compress, count, groupby, islice, product, starmap, takewhile, zip_longest

regions = ["north", "south", "east", "west"]
orders = [
    {"id": i, "region": regions[i * 7 % 4], "amount": i * 37 % 501, "items": [f"sku-{(i + k) % 23}" for k in range(i % 5)]}
    for i in range(12_000)
]

orders.sort(key=operator.itemgetter("region", "amount"))
for region, group in groupby(orders, key=operator.itemgetter("region")):
    amounts = [order["amount"] for order in group]
    running = list(accumulate(amounts))
    half = sum(1 for _ in takewhile(lambda total: total < running[-1] / 2, running))
    print(f"{region:<6} {len(amounts):>4} orders, {running[-1]:>7,} in total, half after {half}")

pairs = {}
for order in orders:
    for pair in combinations(sorted(set(order["items"])), 2):
        pairs[pair] = pairs.get(pair, 0) + 1
print("most often together:", sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:3])

skus = sorted(set(chain.from_iterable(order["items"] for order in orders)))
print(len(skus), "skus:", ", ".join(islice(skus, 4)), "…")
big = list(compress(orders, (order["amount"] > 450 for order in orders)))
print("big orders:", len(big), "product of ids mod 9973:", reduce(lambda a, b: a * b % 9973, (o["id"] + 1 for o in big)))

sizes, colors = ["S", "M", "L", "XL"], ["red", "green", "blue"]
variants = [f"{size}/{color}/{fit}" for size, color, fit in product(sizes, colors, ("slim", "wide"))]
print(len(variants), variants[:: 7])
rows = zip_longest(*[iter(variants)] * 5, fillvalue="-")
print("\n".join(" | ".join(f"{cell:<12}" for cell in row) for row in rows))
print(sum(starmap(pow, ((base, exponent) for base, exponent in product(range(1, 60), range(6))))))
print(next(n for n in count(1) if sum(d * d for d in map(int, str(n))) == 100))
