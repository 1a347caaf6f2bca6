"""The devices that programs expect: they swallow, give zeros and random bytes, and are no files."""

import os
import stat

with open(os.devnull, "w") as file:
    print(file.write("x" * 100_000), file.isatty(), stat.S_ISCHR(os.fstat(file.fileno()).st_mode))
with open(os.devnull) as file:
    print(repr(file.read()))
with open("/dev/zero", "rb") as file:
    zeros = file.read(3_000_000)
    print(len(zeros), zeros.count(0))
with open("/dev/urandom", "rb") as file:
    print(len(file.read(16)), len(set(file.read(10_000))))
print(os.path.exists("/dev/null"), stat.S_ISCHR(os.stat("/dev/null").st_mode))
for attempt in (
    lambda: open("/dev/null/x"),
    lambda: open("/dev/tty"),
    lambda: open("/dev/null", "x"),
    lambda: os.listdir("/dev/null"),
    lambda: os.remove("/dev/null"),
    lambda: os.write(os.open("/dev/null", os.O_RDONLY), b"x"),
    lambda: os.read(os.open("/dev/zero", os.O_WRONLY), 1),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(type(error).__name__)

# expect stdout has: ["100000 False True\n''\n3000000 3000000\n16 256\nTrue True\n", "FileExistsError\nNotADirectoryError\n", "OSError\nOSError\n"]
# expect stdout lacks: ["done"]
# expect files: []
