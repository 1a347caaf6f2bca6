# aim = "contact"
# tries = "Connects without waiting, where only blocking calls are watched."
import selectors
import socket

connection = socket.socket()
connection.setblocking(False)
connection.connect_ex(("127.0.0.1", int("@PORT@")))
selector = selectors.DefaultSelector()
selector.register(connection, selectors.EVENT_WRITE)
selector.select(1)
