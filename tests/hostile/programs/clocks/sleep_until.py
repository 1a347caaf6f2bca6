# aim = "time"
# tries = "Waits for a moment that moves on."
import time

goal = time.monotonic() + 1
while time.monotonic() < goal:
    goal = time.monotonic() + 1
