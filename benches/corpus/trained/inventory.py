from abc import ABC, abstractmethod


class Item(ABC):
    tax = 0.1

    def __init__(self, name, price, stock):
        self._name, self.price, self.stock = name, price, stock

    @property
    def name(self):
        return self._name.title()

    @abstractmethod
    def discount(self, count): ...

    def cost(self, count):
        return round((1 + self.tax) * count * self.price * (1 - self.discount(count)), 2)

    @classmethod
    def parse(cls, line):
        name, price, stock = line.split(";")
        return cls(name, float(price), int(stock))

    @staticmethod
    def currency(value):
        return f"${value:,.2f}"

    def __lt__(self, other):
        return (self.price, self._name) < (other.price, other._name)

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.price})"


class Book(Item):
    tax = 0.05

    def discount(self, count):
        return 0.2 if count > 10 else 0


class Gadget(Item):
    def discount(self, count):
        return min(count, 5) / 100

    def cost(self, count):
        return super().cost(count) + 1


lines = [f"thing {i};{i % 97 + 0.5};{i % 13}" for i in range(1_500)]
items = [(Book, Gadget)[i % 2].parse(line) for i, line in enumerate(lines)]
total = sum(item.cost(i % 15 + 1) for i, item in enumerate(items) if item.stock)
print(Item.currency(total), sorted(items)[:3], sum(isinstance(item, Book) for item in items))
