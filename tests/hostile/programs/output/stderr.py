# aim = "output"
# tries = "Floods standard error, which is not the stream that is watched."
import sys

while True:
    sys.stderr.write("x" * 100_000)
