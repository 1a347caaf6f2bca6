# aim = "descriptors"
# tries = "Opens pipes, two descriptors each."
import os
import time

try:
    while True:
        os.pipe()
except OSError:
    time.sleep(0.5)
