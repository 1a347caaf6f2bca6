print(42)

# with policy: strict
# expect result: null
# expect stdout: "42\n"
