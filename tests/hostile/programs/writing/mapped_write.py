# aim = "outside"
# tries = "Changes a file of the host by a shared mapping."
import mmap

with open("@OUTSIDE@/victim.txt", "r+b") as file:
    mmap.mmap(file.fileno(), 0)[0:1] = b"!"
