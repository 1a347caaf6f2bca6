import re

TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*)|(?P<name>[a-z]\w*)|(?P<op>[-+*/()^]))")


def tokens(text):
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise SyntaxError(f"at {at}")
        at = match.end()
        yield match.lastgroup, match.group(match.lastgroup)


class Parser:
    def __init__(self, text, names):
        self.tokens, self.names = list(tokens(text)), names
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None)

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self):
        value = self.product()
        while self.peek()[1] in ("+", "-"):
            value = value + self.product() if self.next()[1] == "+" else value - self.product()
        return value

    def product(self):
        value = self.atom()
        while self.peek()[1] in ("*", "/"):
            value = value * self.atom() if self.next()[1] == "*" else value / self.atom()
        return value

    def atom(self):
        kind, text = self.next()
        if kind == "number":
            return float(text)
        if kind == "name":
            return self.names[text]
        if text == "-":
            return -self.atom()
        value = self.sum()
        self.next()
        return value


expression = "3 + x * (2 - y / 4) * -(1 + 2 * 3) - 10 / (z + 1)"
print(sum(Parser(expression, {"x": i, "y": i % 5, "z": i % 3}).sum() for i in range(400)))
