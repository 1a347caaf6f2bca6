"""Moves files to and fro between its directories, and holds them after their last name is gone."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        file = open("here", "w+b", buffering=0)
        held.append(file)
        for _ in range(60):
            os.rename("here", "/tmp/there")
            os.rename("/tmp/there", "here")
            open("/tmp/small", "w").close()
        file.write(bytes(1 << 20))
        os.unlink("here")
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
