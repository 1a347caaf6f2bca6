class Field:
    """A descriptor that converts and validates values."""

    def __init__(self, *, convert=None, default=None, check=None):
        self.convert, self.default, self.check = convert, default, check

    def __set_name__(self, owner, name):
        self.name = name
        self.slot = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.slot, self.default)

    def __set__(self, instance, value):
        if self.convert is not None:
            value = self.convert(value)
        if self.check is not None and not self.check(value):
            raise ValueError(f"{type(instance).__name__}.{self.name} cannot be {value!r}")
        setattr(instance, self.slot, value)


class Model:
    registry = {}

    def __init_subclass__(cls, /, table=None, **options):
        super().__init_subclass__(**options)
        cls.table = table or cls.__name__.lower() + "s"
        cls.fields = [name for base in reversed(cls.__mro__) for name, value in vars(base).items() if isinstance(value, Field)]
        Model.registry[cls.table] = cls

    def __init__(self, **values):
        unknown = values.keys() - set(self.fields)
        if unknown:
            raise TypeError(f"unknown fields: {', '.join(sorted(unknown))}")
        for name, value in values.items():
            setattr(self, name, value)

    def __eq__(self, other):
        return type(self) is type(other) and self.as_dict() == other.as_dict()

    def __hash__(self):
        return hash(tuple(self.as_dict().values()))

    def as_dict(self):
        return {name: getattr(self, name) for name in self.fields}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"


class Product(Model):
    name = Field(convert=str.strip, check=bool)
    price = Field(convert=float, default=0.0, check=lambda price: price >= 0)
    stock = Field(convert=int, default=0)


class Book(Product, table="library"):
    pages = Field(convert=int, check=lambda pages: 0 < pages < 5000)


made, errors = set(), []
for i in range(10000):
    try:
        made.add(Book(name=f" Book {i % 300} ", price=i % 11 - 1, stock=str(i % 4), pages=i % 260))
    except ValueError as error:
        errors.append(str(error))
print(len(made), "books,", len(errors), "errors:", sorted(set(errors)))
print(max(made, key=lambda book: (book.price, book.pages, book.name, book.stock)))
print({table: model.fields for table, model in Model.registry.items()})
try:
    Book(title="x", isbn="y")
except TypeError as error:
    print(error)
