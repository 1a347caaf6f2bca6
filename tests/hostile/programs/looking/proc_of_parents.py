# aim = "secret"
# tries = "Reads the environments of all processes that it can see."
# control = "the control's process gave up its user, and its parents belong to root"
import os

for process in range(1, 400):
    try:
        print(open(f"/proc/{process}/environ").read())
    except OSError:
        continue
