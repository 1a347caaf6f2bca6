# aim = "contact"
# tries = "Reaches the IPv4 address by its form in IPv6."
import socket

connection = socket.socket(socket.AF_INET6)
connection.connect(("::ffff:127.0.0.1", int("@PORT@")))
