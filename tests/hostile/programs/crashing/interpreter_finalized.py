# aim = "alive"
# tries = "Ends the interpreter from inside."
import ctypes

ctypes.pythonapi.Py_Finalize()
