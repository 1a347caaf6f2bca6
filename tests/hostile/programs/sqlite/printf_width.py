# aim = "memory"
# tries = "Has a function of the database pad text to any width."
import sqlite3

connection = sqlite3.connect(":memory:")
held = [connection.execute("select printf('%.*c', 300000000, 'x')").fetchone() for _ in range(4)]
