import math

print("started")
math.factorial(10**8)
