# aim = "outside"
# tries = "Leaves a named pipe that whoever reads it waits at."
import os

os.mkfifo("@OUTSIDE@/planted")
