# aim = "memory"
# tries = "Unpacks 45 bytes for each megabyte."
# timeout = 5
import bz2

block = bz2.compress(b"x" * (10 << 20))
held = bz2.decompress(block * 90)
