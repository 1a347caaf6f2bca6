# aim = "time"
# tries = "Sorts in compiled code without a place to be interrupted."
# needs = ["numpy"]
import numpy

data = numpy.random.rand(5_000_000)
while True:
    numpy.sort(data, kind="heapsort")
