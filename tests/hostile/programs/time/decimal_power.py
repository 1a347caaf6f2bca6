# aim = "time"
# tries = "Takes a logarithm to a million places."
import decimal

decimal.getcontext().prec = 2_000_000
decimal.Decimal(2).ln()
