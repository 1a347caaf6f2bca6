# aim = "memory"
# tries = "Loads an array whose header promises more than the file has."
# needs = ["numpy"]
import io
import numpy

stream = io.BytesIO()
numpy.save(stream, numpy.zeros(1))
head = stream.getvalue()
held = [numpy.full(eval("(10_000_000,)"), 1.0) for _ in range(10)]
numpy.load(io.BytesIO(head.replace(b"(1,), ", b"(9999999999,), ")))
