# aim = "time"
# tries = "Adds fractions whose denominators never shorten."
from fractions import Fraction

total, n = Fraction(0), 1
while True:
    total += Fraction(1, n)
    n += 1
