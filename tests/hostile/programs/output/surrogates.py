# aim = "output"
# tries = "Prints letters that no encoding has."
import sys

sys.stdout.write("\ud800" * 10_000_000)
