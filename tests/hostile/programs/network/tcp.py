# aim = "contact"
# tries = "Connects to a port of the host."
import socket

socket.create_connection(("127.0.0.1", int("@PORT@"))).sendall(b"hello")
