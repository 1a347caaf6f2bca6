# aim = "descriptors"
# tries = "Duplicates a descriptor."
import os
import time

held = []
try:
    while True:
        held.append(os.dup(1))
except OSError:
    time.sleep(0.5)
