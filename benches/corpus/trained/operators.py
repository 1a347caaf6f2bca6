import operator
from functools import total_ordering


@total_ordering
class Vector:
    def __init__(self, *values):
        self.values = values

    def __add__(self, other):
        return Vector(*map(operator.add, self.values, other.values))

    def __mul__(self, other):
        if isinstance(other, Vector):
            return sum(map(operator.mul, self.values, other.values))
        return Vector(*(v * other for v in self.values))

    __rmul__ = __mul__

    def __neg__(self):
        return -1 * self

    def __eq__(self, other):
        return self.values == other.values

    def __lt__(self, other):
        return self * self < other * other

    def __hash__(self):
        return hash(self.values)

    def __repr__(self):
        return f"Vector{self.values}"


vectors = [Vector(i % 5, i % 7, i % 11) for i in range(1_500)]
total = sum(vectors, Vector(0, 0, 0))
print(total, len(set(vectors)), max(vectors), -total, sorted(vectors)[3])
print(sum(a * b for a, b in zip(vectors, vectors[1:])), vectors[3] >= vectors[4])
