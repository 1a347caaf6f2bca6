# aim = "outside"
# tries = "Makes a directory on the host."
import os

os.makedirs("@OUTSIDE@/planted/deep")
