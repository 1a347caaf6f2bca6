# aim = "outside"
# tries = "Runs a command by the shell."
import os

os.system("echo planted > @OUTSIDE@/planted.txt")
