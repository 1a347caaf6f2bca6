# aim = "contact"
# tries = "Connects to the manager of another process's objects."
from multiprocessing.connection import Client

Client(("127.0.0.1", int("@PORT@")))
