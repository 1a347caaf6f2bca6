# aim = "time"
# tries = "Joins a table with itself eight times."
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table t (a)")
connection.executemany("insert into t values (?)", [(i,) for i in range(300)])
connection.execute("select count(*) from t a, t b, t c, t d, t e, t f, t g, t h").fetchall()
