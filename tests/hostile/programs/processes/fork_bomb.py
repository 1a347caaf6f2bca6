# aim = "processes"
# tries = "Forks in every child, too."
import os
import time

for _ in range(7):
    os.fork()
time.sleep(1)
