"""A second connection cannot read while the first has not committed."""

import sqlite3

one = sqlite3.connect("data.db")
one.execute("create table t (x)")
one.commit()
one.execute("insert into t values (1)")
two = sqlite3.connect("data.db", timeout=0)
try:
    two.execute("select * from t")
except sqlite3.OperationalError as error:
    print(error)
one.commit()
print(two.execute("select * from t").fetchall())

# expect stdout: "database is locked\n[(1,)]\n"
