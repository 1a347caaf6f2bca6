import math

result = math.factorial(10)

# with policy: strict
# expect result: 3628800
