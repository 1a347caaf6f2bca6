from itertools import zip_longest


class Polynomial:
    def __init__(self, *terms):
        self.terms = list(terms)
        while self.terms and self.terms[-1] == 0:
            self.terms.pop()

    def __call__(self, x):
        total = 0
        for term in reversed(self.terms):
            total = total * x + term
        return total

    def __add__(self, other):
        return Polynomial(*(a + b for a, b in zip_longest(self.terms, other.terms, fillvalue=0)))

    def __mul__(self, other):
        terms = [0] * (len(self.terms) + len(other.terms))
        for i, a in enumerate(self.terms):
            for j, b in enumerate(other.terms):
                terms[i + j] += a * b
        return Polynomial(*terms)

    def derivative(self):
        return Polynomial(*(i * t for i, t in enumerate(self.terms) if i))

    def __str__(self):
        return " + ".join(f"{t}x^{i}" for i, t in enumerate(self.terms) if t) or "0"


p = Polynomial(1)
for i in range(1, 26):
    p = p * Polynomial(-i, 1) + Polynomial(i)
print(p(3), sum(p.derivative()(x) % 1_000_003 for x in range(1_000)), str(Polynomial(1, 0, 3)))
