# aim = "others"
# tries = "Patches a function in a module that all share."
# then_prints = "4.0"
import math

math.sqrt = lambda number: 0
# --- then
import math

print(math.sqrt(16))
