# aim = "time"
# tries = "Takes powers of a large matrix in compiled code."
# needs = ["numpy"]
import numpy

matrix = numpy.random.rand(1200, 1200)
while True:
    matrix = numpy.linalg.svd(matrix)[0] @ matrix
