def broken():
print("x")

# expect kind: "syntax"
# expect line: 2
# expect stderr has: ["IndentationError: expected an indented block after function definition on line 1"]
