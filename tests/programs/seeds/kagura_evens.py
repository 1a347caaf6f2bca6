numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
result = [n for n in numbers if n % 2 == 0]

# with policy: strict
# expect result: [2, 4, 6, 8, 10]
