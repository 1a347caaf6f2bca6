"""Makes files whose names are longer than what is in them, in directories with long names."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        folder = f"{number}".ljust(250, "d")
        os.mkdir(folder)
        for name in range(4):
            path = f"{folder}/{name}".ljust(500, "f")
            held.append(open(path, "w+b", buffering=0))
            held[-1].write(bytes(300 << 10))
            os.unlink(path)
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
