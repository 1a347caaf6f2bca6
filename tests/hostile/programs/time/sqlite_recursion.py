# aim = "time"
# tries = "Counts without end inside the database."
import sqlite3

query = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
sqlite3.connect(":memory:").execute(query).fetchall()
