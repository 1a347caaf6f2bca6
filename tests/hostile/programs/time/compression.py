# aim = "time"
# tries = "Compresses random data at the slowest level."
import lzma
import os

data = os.urandom(3_000_000)
while True:
    lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
