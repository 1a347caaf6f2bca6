# aim = "time"
# tries = "Computes a factorial in C."
import math

math.factorial(3_000_000)
