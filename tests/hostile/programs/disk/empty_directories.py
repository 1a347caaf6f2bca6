# aim = "disk"
# tries = "Makes directories, which no count of bytes sees."
import os

for i in range(40_000):
    os.mkdir(f"d{i}")
