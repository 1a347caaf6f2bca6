# aim = "outside"
# tries = "Attaches a database outside, and so makes it."
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("attach '@OUTSIDE@/planted.db' as other")
connection.execute("create table other.t (a)")
connection.commit()
