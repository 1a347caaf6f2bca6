# aim = "answer"
# tries = "Leaves a number of more digits than a reader of JSON converts."
import sys

sys.set_int_max_str_digits(0)
result = 10**20_000
