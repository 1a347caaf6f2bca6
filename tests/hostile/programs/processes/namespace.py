# aim = "alive"
# tries = "Leaves the namespaces of its process."
# control = "the control has no privilege, and where it may make namespaces that harms nobody"
import ctypes

result = ctypes.CDLL(None).unshare(0x10000000 | 0x00020000)
assert result != 0, "made a namespace"
