# aim = "outside"
# tries = "Leaves an extended attribute on a file of the host."
import os

os.setxattr("@OUTSIDE@/victim.txt", "user.planted", b"1")
