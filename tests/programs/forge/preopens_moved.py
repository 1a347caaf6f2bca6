"""Puts one of the host's directories in the place of another: nothing here can."""

import os

moved = []
for wanted in range(3, 10):
    for other in range(3, 10):
        try:
            os.dup2(wanted, other)
            moved.append((wanted, other))
        except OSError:
            continue
open("file.txt", "w").close()
result = [moved, os.listdir("/workspace"), os.listdir("/tmp")]

# expect result: [[], ["file.txt"], []]
# expect files: ["file.txt"]
