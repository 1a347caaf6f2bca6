# aim = "outside"
# tries = "Maps an array of numpy onto a file of the host and writes to it."
# needs = ["numpy"]
import numpy

numpy.memmap("@OUTSIDE@/planted.dat", dtype="u1", mode="w+", shape=(100,))[:] = 7
