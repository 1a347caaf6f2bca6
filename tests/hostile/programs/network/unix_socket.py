# aim = "contact"
# tries = "Connects to a Unix socket by its path."
import socket

socket.socket(socket.AF_UNIX).connect("@SOCKET@")
