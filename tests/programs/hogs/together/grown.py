"""Takes names away first, and then has all of the files grow a little in turn, with holes."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(48):
        held.append(open("gone", "w+b", buffering=0))
        os.unlink("gone")
    for size in range(1, 9):
        for file in held:
            os.truncate(file.fileno(), size << 16)
            os.pwrite(file.fileno(), b"x" * 4096, (size << 16) - 4096)
        for _ in range(120):
            open("small", "w").close()
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
