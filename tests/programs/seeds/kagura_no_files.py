import os

path = os.path.join(".", "config.txt")
result = open(path).read()

# with policy: strict
# expect error: "SecurityError: Forbidden import: os; Forbidden operation: open"
# expect kind: "policy"
