# aim = "outside"
# tries = "Makes a file of the host executable for all."
import os

os.chmod("@OUTSIDE@/victim.txt", 0o777)
