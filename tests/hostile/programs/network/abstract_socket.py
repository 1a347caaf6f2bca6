# aim = "contact"
# tries = "Connects to an abstract socket, which no file system guards."
import socket

socket.socket(socket.AF_UNIX).connect("\0@SOCKET@")
