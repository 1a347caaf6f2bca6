"""Writes to files that have taken the numbers of standard streams."""

import errno
import os

written = 0
try:
    for stream in (2, 0):
        os.close(stream)
        file = os.open(f"instead-of-{stream}", os.O_CREAT | os.O_WRONLY)
        for _ in range(256):
            written += os.write(file, bytes(1 << 16))
except OSError as error:
    print(errno.errorcode[error.errno], written)
