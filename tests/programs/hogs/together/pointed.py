"""Fills files that have no name, while symbolic links come and go."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        for _ in range(120):
            os.symlink("nowhere", "link")
            os.unlink("link")
        file = open("/tmp/gone", "w+b", buffering=0)
        held.append(file)
        os.unlink("/tmp/gone")
        file.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
