# aim = "time"
# tries = "Backtracks inside lookaheads that say nothing."
import re

re.search(r"(?=(x+x+)+y)" * 3, "x" * 34)
