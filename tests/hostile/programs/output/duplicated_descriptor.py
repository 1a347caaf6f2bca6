# aim = "output"
# tries = "Floods a duplicate of the descriptor."
import os

handle = os.dup(2)
while True:
    os.write(handle, b"x" * 100_000)
