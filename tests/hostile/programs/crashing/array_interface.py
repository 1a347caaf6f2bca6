# aim = "alive"
# tries = "Describes memory that is not its own as an array."
# needs = ["numpy"]
import numpy


class Liar:
    __array_interface__ = {"shape": (1 << 20,), "typestr": "<f8", "data": (4096, False), "version": 3}


array = numpy.asarray(Liar())
array[:] = 1.0
