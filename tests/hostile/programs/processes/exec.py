# aim = "outside"
# tries = "Becomes another program."
import os

os.execv("/bin/sh", ["sh", "-c", "echo planted > @OUTSIDE@/planted.txt"])
