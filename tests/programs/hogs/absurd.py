"""Sizes that no 32-bit machine has."""

import sys

asked = [lambda: bytearray(1 << 40), lambda: " " * sys.maxsize, lambda: [None] * (sys.maxsize // 2)]
for ask in asked:
    try:
        ask()
    except (MemoryError, OverflowError):
        print("refused")
