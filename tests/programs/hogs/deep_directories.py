"""A directory in a directory, and so on, without ever writing the whole path."""

import errno
import os

deep = 0
try:
    while deep < 100_000:
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
        deep += 1
except OSError as error:
    print(errno.errorcode[error.errno], deep)
