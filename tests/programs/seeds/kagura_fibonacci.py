result = [0, 1]
while len(result) < 10:
    result.append(result[-1] + result[-2])

# with policy: strict
# expect result: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
