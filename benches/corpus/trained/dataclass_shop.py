from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    FOOD = 1
    TOOL = 2
    BOOK = 3


@dataclass(order=True)
class Product:
    price: float
    name: str = field(compare=False)
    kind: Kind = field(compare=False, default=Kind.FOOD)


class Line(NamedTuple):
    product: Product
    count: int

    def total(self):
        return self.product.price * self.count


products = [Product(i * 1.25, f"product {i}", Kind(i % 3 + 1)) for i in range(300)]
lines = [Line(products[i * 7 % 300], i % 5 + 1) for i in range(3_000)]
by_kind = {}
for line in lines:
    by_kind[line.product.kind] = by_kind.get(line.product.kind, 0) + line.total()
cheaper = [replace(p, price=p.price * 0.9) for p in products]
print({k.name: v for k, v in by_kind.items()}, max(cheaper), len(asdict(products[3])))
