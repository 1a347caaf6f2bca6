import math

result = math.sqrt(16)

# with policy: strict
# expect result: 4.0
