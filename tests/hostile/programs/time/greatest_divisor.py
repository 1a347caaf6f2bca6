# aim = "time"
# tries = "Finds divisors of neighbours of Fibonacci, the worst case."
import math

a, b = 1, 1
while True:
    a, b = b, a + b
    math.gcd(a, b)
