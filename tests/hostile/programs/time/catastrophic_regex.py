# aim = "time"
# tries = "Backtracks exponentially."
import re

re.match(r"(a+)+$", "a" * 40 + "b")
