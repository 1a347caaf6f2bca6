"""Writes in front of the end of a file that is opened to append to, which writes at its end."""

import os

held = globals().setdefault("held", [])

try:
    file = os.open("log", os.O_CREAT | os.O_RDWR | os.O_APPEND)
    held.append(os.fdopen(file, "r+b", buffering=0))
    for _ in range(24):
        os.pwrite(file, bytes(1 << 20), 0)
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
