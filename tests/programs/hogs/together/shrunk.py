"""Empties a file that has no name by one descriptor and fills it by another, and then one more."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        file = open("same", "w+b", buffering=0)
        other = open("same", "r+b", buffering=0)
        held.extend([file, other])
        os.unlink("same")
        file.write(bytes(1 << 20))
        file.truncate(0)
        for _ in range(120):
            open("small", "w").close()
        other.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
