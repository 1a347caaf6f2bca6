# aim = "contact"
# tries = "Makes connections from sockets that it finds among its descriptors."
import os
import socket

for handle in range(3, 200):
    try:
        found = socket.socket(fileno=os.dup(handle))
        found.close()
    except OSError:
        continue
twin = socket.socket()
os.dup2(twin.fileno(), 250)
socket.socket(fileno=250).connect(("127.0.0.1", int("@PORT@")))
