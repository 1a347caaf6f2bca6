# aim = "alive"
# tries = "Makes an array whose strides leave its memory."
# needs = ["numpy"]
import numpy
from numpy.lib.stride_tricks import as_strided

view = as_strided(numpy.zeros(1), shape=(1 << 16,), strides=(1 << 20,))
view[:] = 1.0
