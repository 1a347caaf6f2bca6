from itertools import accumulate, chain, count, groupby, islice, product, takewhile


def primes():
    yield 2
    found = [2]
    for n in count(3, 2):
        if all(n % p for p in takewhile(lambda p: p * p <= n, found)):
            found.append(n)
            yield n


def windows(values, size):
    window = []
    for value in values:
        window.append(value)
        if len(window) == size:
            yield tuple(window)
            window.pop(0)


def averager():
    total, n, value = 0, 0, None
    while True:
        value = yield value
        total, n = total + value, n + 1
        value = total / n


first = list(islice(primes(), 700))
gaps = [b - a for a, b in windows(first, 2)]
runs = [(k, len(list(g))) for k, g in groupby(sorted(gaps))]
average = averager()
next(average)
means = [average.send(p) for p in first]
print(first[-1], runs[:4], means[-1], sum(accumulate(gaps)))
print(sum(1 for a, b, c in product(range(25), repeat=3) if a + b == c), len(list(chain(*[first] * 5))))
