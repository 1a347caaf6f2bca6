import math


class Shape:
    count = 0

    def __init__(self):
        Shape.count += 1

    def area(self):
        raise NotImplementedError

    def describe(self):
        return f"{type(self).__name__} of {self.area():.2f}"


class Circle(Shape):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def area(self):
        return math.pi * self.radius**2


class Polygon(Shape):
    def __init__(self, points):
        super().__init__()
        self.points = points

    def area(self):
        edges = zip(self.points, self.points[1:] + self.points[:1])
        return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in edges)) / 2


class Square(Polygon):
    def __init__(self, side):
        super().__init__([(0, 0), (side, 0), (side, side), (0, side)])


shapes = []
for i in range(1_500):
    shapes += [Circle(i % 9), Square(i % 7), Polygon([(0, 0), (i, 0), (i, 2), (1, i)])]
total = sum(shape.area() for shape in shapes)
print(Shape.count, round(total, 3), max(shapes, key=lambda s: s.area()).describe(), len({s.describe() for s in shapes}))
