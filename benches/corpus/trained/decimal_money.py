from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

total, rate = Decimal(0), Decimal("0.0725")
for cents in range(1, 600):
    price = Decimal(cents) / 100
    total += (price * (1 + rate)).quantize(Decimal("0.01"), ROUND_HALF_UP)
harmonic = sum(Fraction(1, n) for n in range(1, 120))
print(total, harmonic.numerator % 1_000_007, float(harmonic))
