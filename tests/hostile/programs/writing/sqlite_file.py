# aim = "outside"
# tries = "Makes a database outside of the workspace."
import sqlite3

connection = sqlite3.connect("file:@OUTSIDE@/planted.db?mode=rwc", uri=True)
connection.execute("create table t (a)")
connection.commit()
