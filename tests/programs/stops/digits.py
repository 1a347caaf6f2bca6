"""Turns a huge number into text, after lifting the limit on that."""

import sys

sys.set_int_max_str_digits(0)
print("started")
str(7**30_000_000)
