# aim = "time"
# tries = "Leaves a named pipe, which whoever copies it waits at."
# control = "the control copies regular files only"
import os

os.mkfifo("report.txt")
