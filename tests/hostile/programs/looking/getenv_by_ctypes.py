# aim = "secret"
# tries = "Asks the C library for the variable."
import ctypes

library = ctypes.CDLL(None)
library.getenv.restype = ctypes.c_char_p
print(library.getenv(b"HOSTILE_SECRET"))
