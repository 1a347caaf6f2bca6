import math
from fractions import Fraction


def continued_fraction(value):
    terms = []
    while True:
        whole = value.numerator // value.denominator
        terms.append(whole)
        value -= whole
        if not value:
            return terms
        value = 1 / value


def convergents(terms):
    h, h1, k, k1 = 1, 0, 0, 1
    for term in terms:
        h, h1 = term * h + h1, h
        k, k1 = term * k + k1, k
        yield Fraction(h, k)


def solve(matrix, right):
    rows = [[*map(Fraction, row), Fraction(value)] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = next(row for row in range(column, size) if rows[row][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column][column]
        rows[column] = [value / lead for value in rows[column]]
        for row in range(size):
            if row != column and rows[row][column]:
                factor = rows[row][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column])]
    return [row[-1] for row in rows]


def egyptian(value):
    while value:
        unit = math.ceil(1 / value)
        yield unit
        value -= Fraction(1, unit)


def bernoulli(n):
    row = []
    for m in range(n + 1):
        row.append(Fraction(1, m + 1))
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
    return row[0]


hilbert = [[Fraction(1, i + j + 1) for j in range(16)] for i in range(16)]
print([str(x) for x in solve(hilbert, [1] * 16)])
print(continued_fraction(Fraction(math.pi).limit_denominator(10**6)))
print([str(c) for c in convergents([1, *[2] * 12])][-1], float(Fraction(1, 3) + Fraction(2, 7)))
print(list(egyptian(Fraction(5, 121)))[:4])
print({n: str(bernoulli(n)) for n in range(0, 62, 4)})
print(sum(Fraction(1, n) for n in range(1, 600)).limit_denominator(10_000))
