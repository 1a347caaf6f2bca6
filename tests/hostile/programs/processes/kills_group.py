# aim = "alive"
# tries = "Signals its whole process group."
import os
import signal

os.killpg(os.getpgrp(), signal.SIGTERM)
