total = 1 +
print(total)

# expect kind: "syntax"
# expect error: "SyntaxError: invalid syntax (<string>, line 1)"
# expect line: 1
# expect stdout: ""
# expect stderr has: ["File \"<string>\", line 1", "total = 1 +", "^", "SyntaxError: invalid syntax"]
# expect stderr lacks: ["belljar"]
