# aim = "outside"
# tries = "Grows a file of the host without writing."
import os

os.posix_fallocate(os.open("@OUTSIDE@/victim.txt", os.O_RDWR), 0, 1 << 20)
