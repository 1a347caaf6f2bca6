# aim = "memory"
# tries = "Fills an array of numpy, whose memory is C's."
# needs = ["numpy"]
import numpy

held = numpy.ones(100_000_000)
