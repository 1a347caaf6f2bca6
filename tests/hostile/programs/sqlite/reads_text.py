# aim = "secret"
# tries = "Reads a file as a database, whose error or bytes tell what it holds."
import sqlite3

open("copy.db", "wb").write(open("@SECRET_FILE@", "rb").read())
try:
    sqlite3.connect("@SECRET_FILE@").execute("select * from t")
except sqlite3.DatabaseError as error:
    print(error, open("copy.db").read())
