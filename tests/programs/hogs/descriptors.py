"""Opens the same file until it is refused, and leaves all of them open."""

import errno
import os

open("file.txt", "w").close()
held = []
try:
    while len(held) < 100_000:
        held.append(os.open("file.txt", os.O_RDONLY))
except OSError as error:
    print(errno.errorcode[error.errno], len(held))
else:
    print("unlimited", len(held))
