# aim = "output"
# tries = "Writes to descriptor 1, below the stream that was replaced."
import os

while True:
    os.write(1, b"x" * 100_000)
