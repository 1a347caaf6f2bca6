"""argv: how many MiB to ask for in one piece."""

import sys

block = bytearray(int(sys.argv[1]) << 20)
print(len(block))
