# aim = "others"
# tries = "Changes the value of the number 42 for all who use it."
# then_prints = "42 43"
import ctypes

header = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
ctypes.memset(id(42) + header, 7, 1)
# --- then
print(int("6") * 7, int("42") + 1)
