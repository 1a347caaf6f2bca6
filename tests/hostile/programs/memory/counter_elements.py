# aim = "memory"
# tries = "Has a counter give all of its elements."
from collections import Counter

held = list(Counter(a=1 << 40).elements())
