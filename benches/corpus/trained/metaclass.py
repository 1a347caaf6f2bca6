class Registry(type):
    known = {}

    def __new__(mcls, name, bases, body):
        cls = super().__new__(mcls, name, bases, body)
        mcls.known[name] = cls
        return cls


class Typed:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}")
        setattr(instance, self.name, value)


class Model(metaclass=Registry):
    def __getattr__(self, name):
        if name.startswith("get_"):
            return lambda: getattr(self, name[4:])
        raise AttributeError(name)


class Point(Model):
    x, y = Typed(int), Typed(int)

    def __init__(self, x, y):
        self.x, self.y = x, y


total, wrong = 0, 0
for i in range(4_000):
    try:
        point = Point(i, i if i % 4 else "no")
        total += point.get_x() + point.y
    except TypeError:
        wrong += 1
print(total, wrong, sorted(Registry.known), hasattr(Point(1, 2), "other"))
