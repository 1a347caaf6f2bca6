from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*)|([a-z]\w*)|(.))")


@dataclass(frozen=True)
class Number:
    value: float

    def evaluate(self, names):
        return self.value

    def derivative(self, name):
        return Number(0.0)


@dataclass(frozen=True)
class Name:
    name: str

    def evaluate(self, names):
        return names[self.name]

    def derivative(self, name):
        return Number(1.0 if name == self.name else 0.0)


@dataclass(frozen=True)
class Binary:
    operator: str
    left: object
    right: object

    def evaluate(self, names):
        left, right = self.left.evaluate(names), self.right.evaluate(names)
        if self.operator == "+":
            return left + right
        if self.operator == "-":
            return left - right
        if self.operator == "*":
            return left * right
        return left / right

    def derivative(self, name):
        a, b = self.left.derivative(name), self.right.derivative(name)
        if self.operator in "+-":
            return Binary(self.operator, a, b)
        product = Binary("*", a, self.right), Binary("*", self.left, b)
        if self.operator == "*":
            return Binary("+", *product)
        return Binary("/", Binary("-", *product), Binary("*", self.right, self.right))


class Parser:
    def __init__(self, text):
        self.tokens = [match.groups() for match in TOKEN.finditer(text)]
        self.position = 0

    def peek(self):
        return self.tokens[self.position][2] if self.position < len(self.tokens) else None

    def chain(self, operators, operand):
        left = operand()
        while (operator := self.peek()) in operators:
            self.position += 1
            left = Binary(operator, left, operand())
        return left

    def expression(self):
        return self.chain(("+", "-"), self.term)

    def term(self):
        return self.chain(("*", "/"), self.factor)

    def factor(self):
        number, name, symbol = self.tokens[self.position]
        self.position += 1
        if number:
            return Number(float(number))
        if name:
            return Name(name)
        if symbol != "(":
            raise SyntaxError(f"unexpected {symbol!r}")
        inner = self.expression()
        self.position += 1
        return inner


texts = ["x * x - 2 * x + 1", "(x + 1) / (x * x + y)", "3.5 * (y - x) * (x + 2 / y)", "x / y - y / x + 4 * x * y"]
for text in texts:
    tree = Parser(text).expression()
    slope = tree.derivative("x")
    total = sum(slope.evaluate({"x": i / 8, "y": 2.0 + i % 3}) for i in range(1, 2500))
    print(f"{text:<30} at 2: {tree.evaluate({'x': 2, 'y': 3}):9.4f}  slopes: {total:14.4f}")
for _ in range(300):
    trees = [Parser(text).expression() for text in texts]
print(len(set(trees)), trees[0].derivative("x") == Parser(texts[0]).expression().derivative("x"))
