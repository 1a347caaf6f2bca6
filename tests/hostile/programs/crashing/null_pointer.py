# aim = "alive"
# tries = "Reads the address zero."
import ctypes

ctypes.string_at(0)
