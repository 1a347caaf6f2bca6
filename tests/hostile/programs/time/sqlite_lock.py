# aim = "time"
# tries = "Waits for its own lock on a database, as long as it likes."
import sqlite3

first = sqlite3.connect("a.db", isolation_level=None)
first.execute("begin exclusive")
sqlite3.connect("a.db", timeout=3600).execute("create table t (a)")
