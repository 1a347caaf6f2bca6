"""Data passed as a literal in the code."""

data = [1, 2, 3, 4, 5]
print(sum(data))

# expect stdout: "15\n"
