# aim = "contact"
# tries = "Makes the system calls by their numbers."
# control = "the numbers are x86-64's"
import ctypes
import struct

call = ctypes.CDLL(None).syscall
handle = call(41, 2, 1, 0)
call(42, handle, struct.pack("=H", 2) + struct.pack(">H", int("@PORT@")) + b"\x7f\0\0\1" + bytes(8), 16)
