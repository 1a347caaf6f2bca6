# aim = "outside"
# tries = "Writes relative to a handle of a directory outside."
import os

handle = os.open("../outside", os.O_RDONLY)
os.write(os.open("planted.txt", os.O_WRONLY | os.O_CREAT, dir_fd=handle), b"planted")
