# aim = "time"
# tries = "Turns a number of millions of bits into decimal."
import sys

sys.set_int_max_str_digits(0)
print(len(str(1 << 40_000_000)))
