result = [n**2 for n in [1, 2, 3, 4, 5]]

# with policy: strict
# expect result: [1, 4, 9, 16, 25]
