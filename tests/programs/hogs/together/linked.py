"""Gives files a second name and takes both away, while links come and go."""

import os

held = globals().setdefault("held", [])

try:
    open("small", "w").close()
    for number in range(24):
        for _ in range(120):
            os.link("small", "second")
            os.unlink("second")
        file = open("gone", "w+b", buffering=0)
        held.append(file)
        os.link("gone", "/tmp/gone")
        os.unlink("gone")
        file.write(bytes(1 << 20))
        os.unlink("/tmp/gone")
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
