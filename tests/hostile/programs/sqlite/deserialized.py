# aim = "alive"
# tries = "Opens bytes as a database, whose header lies about its size."
# control = "the library checks what it reads; the class stays worth trying"
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table t (a)")
image = bytearray(connection.serialize())
image[28:32] = (0xFFFFFF).to_bytes(4, "big")
other = sqlite3.connect(":memory:")
try:
    other.deserialize(bytes(image))
    other.execute("insert into t values (zeroblob(100000))")
except sqlite3.DatabaseError as error:
    print(error)
