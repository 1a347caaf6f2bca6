# aim = "others"
# tries = "Lowers the limit on digits for the next one."
# then_prints = "1001"
import sys

sys.set_int_max_str_digits(640)
# --- then
print(len(str(10**1000)))
