# aim = "contact"
# tries = "Sends a datagram, which needs no connection."
import socket

socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", int("@PORT@")))
