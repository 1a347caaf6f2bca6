# aim = "alive"
# tries = "Closes the database from a function that it calls."
# control = "the module refuses since 3.11; the class stays worth trying"
import sqlite3

connection = sqlite3.connect(":memory:")


def closes(value):
    try:
        connection.close()
    except sqlite3.Error as error:
        return str(error)


connection.create_function("closes", 1, closes)
try:
    print(connection.execute("select closes(1), closes(2)").fetchall())
except sqlite3.Error as error:
    print(error)
