# aim = "alive"
# tries = "Opens databases with bytes changed at every place of the first page."
# control = "the library checks what it reads; the class stays worth trying"
import sqlite3

connection = sqlite3.connect("a.db")
connection.execute("create table t (a, b)")
connection.executemany("insert into t values (?, ?)", [(i, "x" * i) for i in range(50)])
connection.commit()
connection.close()
good = open("a.db", "rb").read()
for at in range(0, 4096, 37):
    open("b.db", "wb").write(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
    try:
        other = sqlite3.connect("b.db")
        other.execute("select sum(length(b)), group_concat(a) from t").fetchall()
        other.execute("pragma integrity_check").fetchall()
    except sqlite3.DatabaseError:
        pass
