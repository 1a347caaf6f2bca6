result = sum(range(1, 101))

# with policy: strict
# expect result: 5050
