"""argv: a descriptor, and how many MiB to write to it."""

import os
import sys

block = b"y" * (1 << 16)
for _ in range(int(sys.argv[2]) << 4):
    os.write(int(sys.argv[1]), block)
