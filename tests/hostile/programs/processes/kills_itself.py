# aim = "alive"
# tries = "Kills the process that it runs in."
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
