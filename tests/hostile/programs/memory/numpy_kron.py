# aim = "memory"
# tries = "Has a product of Kronecker grow in both directions."
# needs = ["numpy"]
import numpy

block = numpy.ones((100, 100))
held = numpy.kron(block, block)
