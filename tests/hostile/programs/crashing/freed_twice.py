# aim = "alive"
# tries = "Drops a reference that it does not own, until the object is gone."
import ctypes

thing = object()
for _ in range(100):
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(thing))
del thing
ctypes.pythonapi.Py_DecRef(ctypes.py_object(None))
ctypes.memset(id(type), 0, 400)
type(1)
