# aim = "contact"
# tries = "Opens a port of its own, and connects to the host's from there."
import socket

server = socket.create_server(("127.0.0.1", 0))
caller = socket.create_connection(server.getsockname())
socket.create_connection(("127.0.0.1", int("@PORT@")), source_address=("127.0.0.1", 0))
