# aim = "disk"
# tries = "Has a database keep a journal as large as itself."
import sqlite3

connection = sqlite3.connect("a.db")
connection.execute("create table t (a)")
for _ in range(400):
    connection.execute("insert into t values (randomblob(1000000))")
