import sqlite3

base = sqlite3.connect(":memory:")
base.execute("create table sales (id integer primary key, item text, price real, day text)")
rows = [(i, f"item {i % 40}", i * 1.25 % 100, f"2024-{i % 12 + 1:02}-01") for i in range(4_000)]
base.executemany("insert into sales values (?, ?, ?, ?)", rows)
base.execute("create index by_item on sales (item)")
top = base.execute(
    "select item, count(*), sum(price) s from sales group by item order by s desc limit 3"
).fetchall()
months = base.execute("select substr(day, 1, 7) m, avg(price) from sales group by m order by m").fetchall()
one = sum(base.execute("select price from sales where id = ?", (i,)).fetchone()[0] for i in range(300))
joined = base.execute("select count(*) from sales a join sales b on a.id = b.id + 40 and a.item = b.item")
print(top, len(months), round(one, 2), joined.fetchone())
