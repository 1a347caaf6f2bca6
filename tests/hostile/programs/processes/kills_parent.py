# aim = "alive"
# tries = "Kills the process that started it."
# control = "a child of the control's may not signal its parent, which belongs to root"
import os
import signal

os.kill(os.getppid(), signal.SIGKILL)
