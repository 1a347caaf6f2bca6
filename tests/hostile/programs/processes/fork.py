# aim = "processes"
# tries = "Forks a crowd of children that sleep."
import os
import time

for _ in range(50):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
time.sleep(1)
