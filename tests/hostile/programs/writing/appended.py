# aim = "outside"
# tries = "Appends to a file of the host through a link in the workspace."
import os

os.symlink("@OUTSIDE@/victim.txt", "log.txt")
open("log.txt", "a").write("planted")
