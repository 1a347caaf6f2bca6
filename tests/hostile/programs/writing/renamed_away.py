# aim = "outside"
# tries = "Moves a file of the host into the workspace."
import os

os.rename("@OUTSIDE@/victim.txt", "mine.txt")
