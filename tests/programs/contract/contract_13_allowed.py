"""Everything that the default list allows, and the statements that the original refuses."""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import time
import typing


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance

    def pay(self, amount: int) -> int:
        if amount > self.balance:
            raise ValueError("not enough")
        self.balance -= amount
        return self.balance


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0


class Colour(enum.Enum):
    RED = 1


class Row(typing.NamedTuple):
    key: str
    value: int


account = Account(10)
try:
    account.pay(20)
except ValueError as error:
    refused = str(error)
finally:
    account.pay(3)
squares = {n: n * n for n in range(3)}
words = collections.Counter(re.findall(r"\w+", "a b a"))
pairs = sorted(itertools.product([2, 1], "ab"), key=operator.itemgetter(0))
total = functools.reduce(lambda a, b: a + b, squares.values())
match Row("k", 2):
    case Row(key=key, value=2):
        matched = key
result = {
    "refused": refused,
    "balance": account.balance,
    "points": max(Point(1), Point(2)).x,
    "colour": Colour.RED.name,
    "copy": copy.deepcopy(squares) == squares,
    "words": dict(words),
    "pairs": len(pairs),
    "total": total,
    "matched": matched,
    "json": json.loads(json.dumps([1])),
    "root": math.isqrt(17),
    "mean": statistics.mean([1, 2, 3]),
    "decimal": str(decimal.Decimal("0.1") + decimal.Decimal("0.2")),
    "half": str(fractions.Fraction(1, 2)),
    "letters": string.ascii_lowercase[:3],
    "year": datetime.datetime(2024, 1, 1).year,
    "formatted": datetime.datetime.strptime("2024-05-06", "%Y-%m-%d").strftime("%d.%m.%Y"),
    "random": 0 <= random.random() < 1,
    "time": time.time() > 0,
}

# with policy: strict
# expect success: true
# expect result: {"refused": "not enough", "balance": 7, "points": 2, "colour": "RED", "copy": true, "words": {"a": 2, "b": 1}, "pairs": 4, "total": 5, "matched": "k", "json": [1], "root": 4, "mean": 2, "decimal": "0.3", "half": "1/2", "letters": "abc", "year": 2024, "formatted": "06.05.2024", "random": true, "time": true}
