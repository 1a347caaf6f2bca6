# aim = "time"
# tries = "Backtracks over alternatives that overlap."
import re

re.match(r"(?:a|a|aa|aaa)*$", "a" * 60 + "!")
