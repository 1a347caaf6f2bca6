# aim = "memory"
# tries = "Asks the C library, which no allocator of Python's counts."
import ctypes

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
for _ in range(80):
    ctypes.memset(library.malloc(ctypes.c_size_t(10 << 20)), 1, 10 << 20)
