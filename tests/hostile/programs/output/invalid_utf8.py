# aim = "output"
# tries = "Writes bytes that are no UTF-8, each of which becomes three."
import os

for _ in range(200):
    os.write(1, b"\xff" * 100_000)
