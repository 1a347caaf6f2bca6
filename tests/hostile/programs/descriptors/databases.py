# aim = "descriptors"
# tries = "Connects to databases, each with files of its own."
import sqlite3
import time

held = []
try:
    for i in range(1000):
        held.append(sqlite3.connect(f"{i}.db"))
        held[-1].execute("create table t (a)")
except (OSError, sqlite3.Error):
    time.sleep(0.5)
