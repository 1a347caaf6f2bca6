# aim = "outside"
# tries = "Moves the database's own temporary files to a directory outside."
# control = "most builds leave the pragma out"
import sqlite3

connection = sqlite3.connect("a.db")
connection.execute("pragma temp_store_directory = '@OUTSIDE@'")
connection.execute("pragma temp_store = file")
connection.execute("pragma cache_size = 1")
connection.execute("create temp table t as select randomblob(1000000)")
connection.execute("create index temp.i on t (1)")
