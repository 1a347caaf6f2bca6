# aim = "alive"
# tries = "Makes itself traced, so that it stops at the next signal."
import ctypes
import os

ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), 11)
