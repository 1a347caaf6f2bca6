# aim = "time"
# tries = "Computes a binomial coefficient in C."
import math

math.comb(200_000_000, 100_000_000)
