# aim = "alive"
# tries = "Loads a shared library that it wrote, which is no library."
import importlib.machinery
import importlib.util

open("native.so", "wb").write(b"\x7fELF\x02\x01\x01" + bytes(500))
try:
    loader = importlib.machinery.ExtensionFileLoader("native", "./native.so")
    spec = importlib.util.spec_from_loader("native", loader)
    importlib.util.module_from_spec(spec)
finally:
    import ctypes

    ctypes.string_at(1)
