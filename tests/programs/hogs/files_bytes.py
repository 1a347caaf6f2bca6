"""Writes until it is refused."""

import errno

written = 0
try:
    with open("big.bin", "wb", buffering=0) as file:
        while True:
            written += file.write(bytes(1 << 16))
except OSError as error:
    print(errno.errorcode[error.errno], written)
