# aim = "alive"
# tries = "Has the kernel send an alarm that nobody handles."
import signal
import time

signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(1)
