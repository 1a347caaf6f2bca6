# aim = "contact"
# tries = "Lists the accounts of the machine, and tells a listener who is there."
import pwd
import socket

names = ",".join(entry.pw_name for entry in pwd.getpwall())
socket.create_connection(("127.0.0.1", int("@PORT@"))).sendall(names.encode())
