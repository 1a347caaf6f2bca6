# aim = "output"
# tries = "Prints an array in full."
# needs = ["numpy"]
# timeout = 5
import numpy

numpy.set_printoptions(threshold=10**9, floatmode="fixed", precision=15)
for _ in range(16):
    print(numpy.array_repr(numpy.ones(2000)))
    print("x" * 1_000_000)
