# aim = "alive"
# tries = "Restores an array from a state in which length and shape differ."
# needs = ["numpy"]
# control = "numpy compares the two; the class stays worth trying"
import numpy

array = numpy.zeros(3)
try:
    array.__setstate__((1, (1 << 40,), numpy.dtype("f8"), False, b"x" * 8))
    print(array.sum())
except (ValueError, MemoryError) as error:
    print(error)
