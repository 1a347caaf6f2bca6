# aim = "outside"
# tries = "Loads a shared library as an extension of the database."
# control = "there is no library to load on this machine; see sqlite/pragma_writable for what works"
import sqlite3

connection = sqlite3.connect(":memory:")
connection.enable_load_extension(True)
connection.load_extension("@OUTSIDE@/planted.so")
