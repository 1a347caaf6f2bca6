# aim = "time"
# tries = "Stops the process, so that it neither ends nor runs."
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
