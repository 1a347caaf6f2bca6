numbers = [10, 20, 30, 40, 50]
result = sum(numbers) / len(numbers)

# with policy: strict
# expect result: 30.0
