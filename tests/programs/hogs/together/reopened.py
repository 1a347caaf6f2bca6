"""Opens one file until files look used up, and between that fills files that have no name."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(24):
        for _ in range(120):
            open("small", "w").close()
        file = open(f"gone-{number}", "w+b", buffering=0)
        held.append(file)
        os.unlink(f"gone-{number}")
        file.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
