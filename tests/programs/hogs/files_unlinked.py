"""Writes to files that no directory names any more."""

import errno
import os

held, written = [], 0
try:
    for number in range(100_000):
        file = open(f"gone-{number}", "wb", buffering=0)
        held.append(file)
        os.unlink(f"gone-{number}")
        for _ in range(16):
            written += file.write(bytes(1 << 16))
except OSError as error:
    print(errno.errorcode[error.errno], written)
