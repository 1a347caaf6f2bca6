# aim = "disk"
# tries = "Reserves room without writing."
import os

os.posix_fallocate(os.open("big", os.O_RDWR | os.O_CREAT), 0, 200 << 20)
import time

time.sleep(0.5)
