# aim = "alive"
# tries = "Leaves by the C library's exit."
import ctypes

ctypes.CDLL(None).exit(0)
