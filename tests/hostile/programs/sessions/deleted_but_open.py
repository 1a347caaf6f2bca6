# aim = "disk"
# tries = "Keeps files open and deleted from run to run."
# session = true
import os

held = open("a", "wb+")
held.write(b"x" * (70 << 20))
held.flush()
os.unlink("a")
# --- again
import time

print(held.seek(0, 2))
time.sleep(0.5)
