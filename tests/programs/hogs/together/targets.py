"""Makes links whose targets are as long as they may be, beside a file that has no name."""

import os

held = globals().setdefault("held", [])

try:
    for number in range(60):
        os.symlink("t" * 4000, f"link-{number}")
    for number in range(24):
        held.append(open("gone", "w+b", buffering=0))
        os.unlink("gone")
        held[-1].write(bytes(1 << 20))
        for _ in range(120):
            open("small", "w").close()
except OSError as error:
    print(error.strerror)

files = {os.fstat(file.fileno()).st_ino: os.fstat(file.fileno()).st_size for file in held}
print("held", sum(files.values()))
