"""Holds files in whose place others were moved, while directories come and go."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        for _ in range(120):
            os.mkdir("turn")
            os.rmdir("turn")
        file = open("same", "w+b", buffering=0)
        held.append(file)
        file.write(bytes(1 << 20))
        open("other", "w").close()
        os.replace("other", "same")
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
