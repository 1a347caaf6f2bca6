# aim = "time"
# tries = "Sleeps in many short pieces, so that no single call is long."
import time

while True:
    time.sleep(0.0001)
