# aim = "memory"
# tries = "Makes an array in which one long text sets the width of all."
# needs = ["numpy"]
import numpy

held = numpy.array(["x"] * 20_000 + ["y" * 10_000])
held[:] = held[-1]
