"""Opens as many files as it may, without names, each a little larger than the last."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(250):
        file = open(f"/tmp/{number}", "w+b", buffering=0)
        held.append(file)
        os.unlink(f"/tmp/{number}")
        file.write(bytes(number << 10))
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
