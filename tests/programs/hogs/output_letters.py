"""Letters of two bytes each, so that a limit can fall into the middle of one."""

import sys

sys.stdout.write("é" * 100_000)
