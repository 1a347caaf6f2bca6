result = [n for n in range(2, 51) if all(n % d for d in range(2, int(n**0.5) + 1))]

# with policy: strict
# expect result: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]
