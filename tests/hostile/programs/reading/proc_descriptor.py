# aim = "secret"
# tries = "Opens a directory, and the file through the descriptor's name in `/proc`."
import os

handle = os.open("..", os.O_RDONLY)
print(open(f"/proc/self/fd/{handle}/secret.txt").read())
