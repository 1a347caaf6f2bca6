# aim = "descriptors"
# tries = "Opens sockets that are not connected."
import socket
import time

held = []
try:
    while True:
        held.append(socket.socketpair())
except OSError:
    time.sleep(0.5)
