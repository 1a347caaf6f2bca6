# aim = "descriptors"
# tries = "Lists directories and never finishes."
import os
import time

held = []
try:
    while True:
        held.append(os.scandir("."))
except OSError:
    time.sleep(0.5)
