# aim = "contact"
# tries = "Calls `socket` and `connect` of the C library."
import ctypes
import struct

library = ctypes.CDLL(None)
handle = library.socket(2, 1, 0)
address = struct.pack("=H", 2) + struct.pack(">H", int("@PORT@")) + bytes([127, 0, 0, 1]) + bytes(8)
library.connect(handle, address, 16)
