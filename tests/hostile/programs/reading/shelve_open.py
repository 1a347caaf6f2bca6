# aim = "secret"
# tries = "Opens a database whose files are links to the secret."
import dbm.dumb
import os

os.symlink("@SECRET_FILE@", "db.dat")
open("db.dir", "w").write("'k', (0, 60)\n")
print(dbm.dumb.open("db", "r")["k"])
