# aim = "outside"
# tries = "Sets the time of a file of the host to 1970."
import os

os.utime("@OUTSIDE@/victim.txt", (0, 0))
