# aim = "alive"
# tries = "Calls a function pointer that it made up."
import ctypes

ctypes.CFUNCTYPE(ctypes.c_int)(0xDEADBEEF)()
