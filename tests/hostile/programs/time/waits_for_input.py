# aim = "time"
# tries = "Waits for a line that never comes, from a pipe of its own."
import os

reader, writer = os.pipe()
os.read(reader, 1)
