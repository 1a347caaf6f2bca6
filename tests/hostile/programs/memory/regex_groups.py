# aim = "memory"
# tries = "Has a regular expression remember every place it could go back to."
import re

re.match(r"(?:(a)|b)*c", "ab" * 40_000_000)
