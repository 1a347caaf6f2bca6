# aim = "time"
# tries = "Reads JSON with one number of a million digits, again and again."
import json
import sys

sys.set_int_max_str_digits(0)
while True:
    json.loads("1" * 300_000)
