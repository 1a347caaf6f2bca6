# aim = "disk"
# tries = "Grows a file by its length, and fills it by a mapping."
import mmap
import os

handle = os.open("big", os.O_RDWR | os.O_CREAT)
os.ftruncate(handle, 200 << 20)
block = mmap.mmap(handle, 0)
block[:] = b"x" * (200 << 20)
block.flush()
