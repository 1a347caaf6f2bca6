# aim = "others"
# tries = "Sets the machine's clock."
# control = "the control is not the superuser, and may not"
# then_prints = "True"
import time

time.clock_settime(time.CLOCK_REALTIME, 0)
# --- then
import time

print(time.time() > 1_600_000_000)
