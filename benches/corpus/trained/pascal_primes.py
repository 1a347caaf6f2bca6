def triangle(rows):
    row = [1]
    for _ in range(rows):
        yield row
        row = [1] + [a + b for a, b in zip(row, row[1:])] + [1]


def sieve(limit):
    flags = bytearray([1]) * (limit + 1)
    flags[:2] = b"\0\0"
    for n in range(2, int(limit**0.5) + 1):
        if flags[n]:
            flags[n * n :: n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n, flag in enumerate(flags) if flag]


def factors(n):
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)


rows = list(triangle(90))
print(max(rows[-1]), len(sieve(60_000)), sum(len(factors(n)) for n in range(2, 5_000)))
