# aim = "time"
# tries = "Sleeps for longer than anybody waits."
import time

time.sleep(3600)
