# aim = "secret"
# tries = "Reads the memory around its own objects by address."
# control = "where the secret lies in the control's memory is chance"
import ctypes

anchor = id(object())
for page in range(-200, 200):
    data = ctypes.string_at((anchor & ~0xFFF) + page * 4096, 4096)
    if b"hostile-secret-" in data:
        print(data)
