"""Puts one of the host's directories in the place of another."""

import os

for wanted in range(3, 10):
    for other in range(3, 10):
        try:
            os.dup2(wanted, other)
            open("file.txt", "w").close()
        except OSError:
            continue

# expect answered: true
