# aim = "time"
# tries = "Sleeps for longer than a clock can count."
import time

try:
    time.sleep(1e18)
except (OverflowError, OSError):
    time.sleep(4e9)
