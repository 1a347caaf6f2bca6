# aim = "memory"
# tries = "Multiplies two short vectors to a large matrix."
# needs = ["numpy"]
import numpy

held = numpy.outer(numpy.ones(10_000), numpy.ones(10_000))
