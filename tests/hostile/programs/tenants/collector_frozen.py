# aim = "others"
# tries = "Turns the collector off for the next one, and leaves it garbage."
# then_prints = "True"
import gc

gc.disable()
# --- then
import gc

print(gc.isenabled())
