# aim = "contact"
# tries = "Uses the C module, past a replaced `socket`."
import _socket

connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
connection.connect(("127.0.0.1", int("@PORT@")))
