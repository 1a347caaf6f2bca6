# aim = "memory"
# tries = "Fills a database that lives in memory."
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table t (a)")
while True:
    connection.execute("insert into t values (randomblob(1000000))")
