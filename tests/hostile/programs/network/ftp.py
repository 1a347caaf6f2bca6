# aim = "contact"
# tries = "Reaches the port by the client of another protocol."
import ftplib

ftplib.FTP().connect("127.0.0.1", int("@PORT@"), timeout=1)
