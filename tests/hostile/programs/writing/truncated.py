# aim = "outside"
# tries = "Shortens a file of the host by its path."
import os

os.truncate("@OUTSIDE@/victim.txt", 1)
