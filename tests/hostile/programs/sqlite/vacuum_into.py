# aim = "outside"
# tries = "Has the database write a copy of itself outside."
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table t (a)")
connection.commit()
connection.execute("vacuum into '@OUTSIDE@/planted.db'")
