# aim = "disk"
# tries = "Opens files that never have a name."
import os

held = []
while True:
    held.append(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))
    os.write(held[-1], b"x" * (8 << 20))
