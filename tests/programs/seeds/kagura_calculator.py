result = float((5 + 3) * 2 - 10)

# with policy: strict
# expect result: 6.0
