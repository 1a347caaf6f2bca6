# aim = "output"
# tries = "Leaves with a message that is a flood."
import sys

sys.stderr.write("x" * 20_000_000)
sys.exit("x" * 20_000_000)
