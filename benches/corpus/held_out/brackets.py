PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    stack = []
    for c in text:
        if c in PAIRS.values():
            stack.append(c)
        elif c in PAIRS and (not stack or stack.pop() != PAIRS[c]):
            return False
    return not stack


def generate(n, text="", opened=0, closed=0):
    if len(text) == 2 * n:
        yield text
    if opened < n:
        yield from generate(n, text + "(", opened + 1, closed)
    if closed < opened:
        yield from generate(n, text + ")", opened, closed + 1)


texts = list(generate(8)) + ["([{}])" * 20, "([)]" * 20, "(a + [b * {c}])" * 50] * 50
print(len(texts), sum(map(balanced, texts)))
