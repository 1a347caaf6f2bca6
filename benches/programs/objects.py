class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    @property
    def square(self):
        return self.x * self.x + self.y * self.y


total = Vector(0, 0)
for i in range(60_000):
    total = total + Vector(i, 1)
    if total.square < 0:
        break
print(total.x, total.y)
