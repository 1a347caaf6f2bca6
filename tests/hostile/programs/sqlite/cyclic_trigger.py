# aim = "time"
# tries = "Fires triggers that fire each other."
import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("pragma recursive_triggers = on")
connection.executescript(
    """
    create table a (x); create table b (x);
    create trigger ta after insert on a begin insert into b select x from a; end;
    create trigger tb after insert on b begin insert into a select x + 1 from b limit 1; end;
    """
)
while True:
    try:
        connection.execute("insert into a values (1)")
    except sqlite3.DatabaseError:
        pass
