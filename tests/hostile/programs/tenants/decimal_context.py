# aim = "others"
# tries = "Leaves a context of one digit for decimals."
# then_prints = "3.25"
import decimal

decimal.getcontext().prec = 1
# --- then
import decimal

print(decimal.Decimal("1.25") + 2)
