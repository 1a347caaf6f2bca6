result = 2**10

# with policy: strict
# expect result: 1024
