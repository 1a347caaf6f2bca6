# aim = "contact"
# tries = "Reaches the socket by a link from the workspace."
import os
import socket

os.symlink("@SOCKET@", "sock")
socket.socket(socket.AF_UNIX).connect("sock")
