"""Has the standard library hold its temporary files, written only, while it reads and removes others."""

import os
import tempfile

held = globals().setdefault("held", [])

try:
    for number in range(24):
        held.append(tempfile.TemporaryFile("wb", buffering=0))
        held[-1].write(os.urandom(1 << 20))
        for _ in range(60):
            with tempfile.NamedTemporaryFile() as file:
                file.write(b"x")
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
