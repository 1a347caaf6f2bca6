# aim = "memory"
# tries = "Has the database make values of half a gigabyte."
import sqlite3

connection = sqlite3.connect(":memory:")
held = [connection.execute("select randomblob(200000000)").fetchone() for _ in range(5)]
