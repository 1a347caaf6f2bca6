"""argv: stdout or stderr, and how many MiB to write there, through Python's own streams."""

import sys

stream = getattr(sys, sys.argv[1])
line = "x" * 1023 + "\n"
for _ in range(int(sys.argv[2]) << 10):
    stream.write(line)
