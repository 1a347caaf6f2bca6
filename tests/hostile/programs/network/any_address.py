# aim = "contact"
# tries = "Connects to 0.0.0.0, which is this host and in no list of loopback addresses."
import socket

socket.create_connection(("0.0.0.0", int("@PORT@"))).close()
