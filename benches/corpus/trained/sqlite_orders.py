import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta


@dataclass
class Order:
    customer: str
    day: date
    lines: list[tuple[str, int, float]]


SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers, day TEXT);
CREATE TABLE lines (ordered INTEGER REFERENCES orders, sku TEXT, quantity INTEGER CHECK (quantity > 0), price REAL);
CREATE INDEX lines_by_order ON lines (ordered);
"""


def make_orders(count):
    for i in range(count):
        lines = [(f"SKU-{(i * k) % 17:03d}", (i + k) % 6, 2.5 * k) for k in range(1, 2 + i % 4)]
        yield Order(f"customer {i % 29}", date(2024, 1, 1) + timedelta(days=i % 200), lines)


def save(connection, order):
    with connection:
        connection.execute("INSERT OR IGNORE INTO customers (name) VALUES (?)", (order.customer,))
        (customer,) = connection.execute("SELECT id FROM customers WHERE name = ?", (order.customer,)).fetchone()
        cursor = connection.execute("INSERT INTO orders (customer, day) VALUES (?, ?)", (customer, order.day.isoformat()))
        connection.executemany(
            "INSERT INTO lines VALUES (?, ?, ?, ?)", [(cursor.lastrowid, *line) for line in order.lines]
        )


with closing(sqlite3.connect(":memory:")) as connection:
    connection.row_factory = sqlite3.Row
    connection.executescript(SCHEMA)
    refused = 0
    for order in make_orders(4500):
        try:
            save(connection, order)
        except sqlite3.IntegrityError:
            refused += 1
    print("refused:", refused)
    query = """
        WITH totals AS (
            SELECT c.name, substr(o.day, 1, 7) AS month, sum(l.quantity * l.price) AS total
            FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.ordered = o.id
            GROUP BY c.name, month)
        SELECT *, rank() OVER (PARTITION BY month ORDER BY total DESC) AS place,
            sum(total) OVER (PARTITION BY name ORDER BY month) AS running FROM totals"""
    best = [dict(row) for row in connection.execute(query) if row["place"] == 1]
    for row in best:
        print("{month} {name:<12} {total:>8.2f} {running:>9.2f}".format(**row))
    for sku, quantity in connection.execute(
        "SELECT sku, sum(quantity) AS q FROM lines GROUP BY sku HAVING q > 100 ORDER BY q DESC, sku LIMIT 5"
    ):
        print(sku, quantity)
    connection.create_function("initials", 1, lambda text: "".join(word[0].upper() for word in text.split()))
    print(connection.execute("SELECT count(DISTINCT initials(name)), max(initials(name)) FROM customers").fetchone()[:])
