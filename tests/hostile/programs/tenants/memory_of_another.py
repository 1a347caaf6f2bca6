# aim = "secret"
# tries = "Allocates without clearing, and looks for what was there."
# needs = ["numpy"]
# control = "what is left in freed memory is chance"
# --- before
parts = [("hostile-secret-" + "found").encode() * 1000 for _ in range(1000)]
del parts
# --- attack
import numpy

for _ in range(50):
    block = numpy.empty(4 << 20, dtype="u1").tobytes()
    at = block.find(b"hostile-secret-" + b"found")
    if at >= 0:
        print(block[at : at + 40])
