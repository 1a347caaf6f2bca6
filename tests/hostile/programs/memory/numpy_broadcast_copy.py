# aim = "memory"
# tries = "Copies an array of stride zero, which is huge only as a copy."
# needs = ["numpy"]
import numpy

held = numpy.broadcast_to(numpy.float64(1), (100_000_000,)).copy()
