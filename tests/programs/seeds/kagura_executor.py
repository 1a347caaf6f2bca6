result = sum(range(1, 1001))

# with policy: strict
# expect result: 500500
