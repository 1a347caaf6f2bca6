import numpy as np

rng = np.random.default_rng(3)
count = 30_000
trades = np.zeros(count, dtype=[("when", "datetime64[m]"), ("symbol", "U4"), ("size", "i4"), ("price", "f8")])
trades["when"] = np.datetime64("2024-02-01T09:00") + np.cumsum(rng.integers(0, 4, count)).astype("timedelta64[m]")
trades["symbol"] = rng.choice(["ABC", "DEF", "GHI"], count, p=[0.5, 0.3, 0.2])
trades["size"] = rng.integers(1, 100, count)
trades["price"] = np.round(50 + np.cumsum(rng.normal(0, 0.2, count)), 2)

symbols, inverse, counts = np.unique(trades["symbol"], return_inverse=True, return_counts=True)
volume = np.bincount(inverse, weights=trades["size"])
turnover = np.bincount(inverse, weights=trades["size"] * trades["price"])
for symbol, n, size, value in zip(symbols, counts, volume, turnover):
    print(f"{symbol} {n:5d} trades, {size:8.0f} units at {value / size:8.4f}")

days = trades["when"].astype("datetime64[D]")
starts = np.flatnonzero(np.r_[True, days[1:] != days[:-1]])
highs = np.maximum.reduceat(trades["price"], starts)
lows = np.minimum.reduceat(trades["price"], starts)
for day, high, low in list(zip(days[starts], highs, lows))[:4]:
    print(day, high, low)

queries = np.arange("2024-02-01T12:00", "2024-02-04T12:00", 360, dtype="datetime64[m]")
at = np.searchsorted(trades["when"], queries, side="right") - 1
print(np.column_stack([queries.astype(str), trades["price"][at].astype(str)])[:3].tolist())

ordered = np.sort(trades, order=["symbol", "price"])
print(ordered[[0, -1]].tolist())
total = 0.0
for trade in trades[:4000]:
    if trade["symbol"] == "ABC" and trade["size"] > 50:
        total += float(trade["price"])
print(round(total, 2))
table, edges = np.histogram(trades["price"], bins=8)
for n, left in zip(table, edges):
    print(f"{left:8.2f} {'*' * int(n // 200)}")
print(np.array2string(edges, precision=1, separator=", "))
print(np.isin(trades["symbol"], ["ABC", "GHI"]).mean(), np.median(trades["price"][trades["size"] > 90]))
