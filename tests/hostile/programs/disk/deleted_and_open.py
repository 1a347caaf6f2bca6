# aim = "disk"
# tries = "Deletes files that it keeps open, so that no listing shows them."
import os

held = []
while True:
    held.append(open("gone", "wb"))
    held[-1].write(b"x" * (8 << 20))
    held[-1].flush()
    os.unlink("gone")
