# aim = "time"
# tries = "Reads a number of millions of digits."
import sys

sys.set_int_max_str_digits(0)
int("7" * 20_000_000)
