PROGRAM = """
push 0
store total
push 1
store i
loop:
load i
push 3000
gt
jump_if done
load total
load i
dup
mul
add
push 1000003
mod
store total
load i
push 1
add
store i
jump loop
done:
load total
print
"""


def assemble(text):
    code, labels = [], {}
    for line in text.split("\n"):
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif line:
            name, _, argument = line.partition(" ")
            code.append((name, argument))
    return [(n, labels.get(a, int(a) if a.isdigit() else a)) for n, a in code]


def run(code):
    stack, names, at, steps = [], {}, 0, 0
    binary = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "mod": lambda a, b: a % b, "gt": lambda a, b: a > b}
    while at < len(code):
        name, argument = code[at]
        at, steps = at + 1, steps + 1
        if name == "push":
            stack.append(argument)
        elif name == "load":
            stack.append(names[argument])
        elif name == "store":
            names[argument] = stack.pop()
        elif name == "dup":
            stack.append(stack[-1])
        elif name == "jump" or (name == "jump_if" and stack.pop()):
            at = argument
        elif name == "print":
            print(stack.pop(), steps)
        elif name in binary:
            b, a = stack.pop(), stack.pop()
            stack.append(binary[name](a, b))


run(assemble(PROGRAM))
