# aim = "contact"
# tries = "Tells a listener the name, kernel and addresses of the machine."
import os
import platform
import socket

text = repr((os.uname(), platform.freedesktop_os_release(), socket.gethostname(), os.cpu_count()))
socket.create_connection(("127.0.0.1", int("@PORT@"))).sendall(text.encode())
