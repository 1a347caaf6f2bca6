# aim = "alive"
# tries = "Reads addresses from a file as if they were objects."
# needs = ["numpy"]
import numpy

raw = numpy.full(64, 0x41414141, dtype=numpy.uintp)
objects = raw.view("u1").tobytes()
holder = numpy.empty(64, dtype=object)
view = numpy.lib.stride_tricks.as_strided(holder, shape=(1 << 20,), strides=(64,))
print([repr(x) for x in view])
