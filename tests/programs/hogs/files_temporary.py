"""Fills the directory for temporary files."""

import errno
import tempfile

held, written = [], 0
try:
    while True:
        file = tempfile.NamedTemporaryFile(buffering=0, delete=False)
        held.append(file)
        for _ in range(16):
            written += file.write(bytes(1 << 16))
except OSError as error:
    print(errno.errorcode[error.errno], written)
