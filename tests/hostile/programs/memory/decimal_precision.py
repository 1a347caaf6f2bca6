# aim = "memory"
# tries = "Asks for a decimal of as many digits as there are bytes."
# timeout = 5
import decimal

context = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
held = [context.create_decimal("1" * 20_000_000) for _ in range(60)]
