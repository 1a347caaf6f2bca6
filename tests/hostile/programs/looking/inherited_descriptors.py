# aim = "secret"
# tries = "Reads from every descriptor that the host forgot to close."
# control = "the control has no open file but its streams"
import os

for handle in range(3, 256):
    try:
        os.lseek(handle, 0, 0)
        print(os.read(handle, 10000))
    except OSError:
        continue
