# aim = "alive"
# tries = "Damages the schema by hand, and has the database go by it."
# control = "the library checks what it reads; the class stays worth trying"
import sqlite3

connection = sqlite3.connect("a.db")
connection.execute("create table t (a integer primary key, b)")
connection.execute("insert into t values (1, zeroblob(100000))")
connection.execute("pragma writable_schema = on")
connection.execute("update sqlite_master set rootpage = 999, sql = 'create table t (a, b, c, d)'")
connection.commit()
connection.close()
try:
    print(sqlite3.connect("a.db").execute("select * from t, t, t").fetchall())
except sqlite3.DatabaseError as error:
    print(error)
