import operator

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}
PRIORITY = {"+": 1, "-": 1, "*": 2, "//": 2}


def to_rpn(text):
    output, stack = [], []
    for token in text.split():
        if token.isdigit():
            output.append(int(token))
        elif token == "(":
            stack.append(token)
        elif token == ")":
            while stack[-1] != "(":
                output.append(stack.pop())
            stack.pop()
        else:
            while stack and stack[-1] != "(" and PRIORITY[stack[-1]] >= PRIORITY[token]:
                output.append(stack.pop())
            stack.append(token)
    return output + stack[::-1]


def evaluate(rpn):
    stack = []
    for token in rpn:
        if isinstance(token, int):
            stack.append(token)
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(OPERATORS[token](a, b))
    return stack[0]


texts = [f"( {i} + 3 ) * ( 7 - {i % 5} ) // ( 2 + {i % 3} ) + 4 * {i}" for i in range(1_200)]
print(sum(evaluate(to_rpn(text)) for text in texts))
