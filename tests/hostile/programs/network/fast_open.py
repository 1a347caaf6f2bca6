# aim = "contact"
# tries = "Sends data in the first packet, by flags of a system call."
import socket

connection = socket.socket()
connection.sendto(b"hello", 0x20000000, ("127.0.0.1", int("@PORT@")))
