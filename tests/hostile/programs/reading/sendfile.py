# aim = "secret"
# tries = "Copies the file to its output by the kernel."
import os

os.sendfile(1, os.open("@SECRET_FILE@", os.O_RDONLY), 0, 1000)
