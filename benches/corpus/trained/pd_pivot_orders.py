import numpy as np
import pandas as pd

rng = np.random.default_rng(21)
size = 3000
orders = pd.DataFrame(
    {
        "order_id": np.arange(size),
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365, size), unit="D"),
        "channel": rng.choice(["web", "shop", "phone"], size, p=[0.6, 0.3, 0.1]),
        "product": rng.choice(["lamp", "chair", "table", "sofa", "rug"], size),
        "units": rng.integers(1, 9, size),
        "price": np.round(rng.gamma(3.0, 40.0, size), 2),
        "note": rng.choice(["Gift  wrap", "express", "GIFT", "", "fragile; express"], size),
    }
)
orders["revenue"] = orders["units"] * orders["price"]
orders["quarter"] = orders["day"].dt.to_period("Q").astype(str)
orders["is_gift"] = orders["note"].str.lower().str.contains("gift")
orders["band"] = pd.cut(orders["price"], [0, 50, 100, 200, np.inf], labels=["low", "mid", "high", "top"])

table = orders.pivot_table(index="product", columns="quarter", values="revenue", aggfunc="sum", margins=True)
print(table.round(0).astype(int).to_string())

summary = orders.groupby(["channel", "band"], observed=True).agg(
    orders=("order_id", "count"), units=("units", "sum"), average=("revenue", "mean"), best=("revenue", "max")
)
print(summary.round(2))

long = table.drop(index="All", columns="All").reset_index().melt(id_vars="product", value_name="revenue")
long["share"] = long["revenue"] / long.groupby("quarter")["revenue"].transform("sum")
long["rank"] = long.groupby("quarter")["share"].rank(ascending=False).astype(int)
print(long.sort_values(["quarter", "rank"]).head(6).to_string(index=False))

weekly = orders.set_index("day")["revenue"].resample("W").sum()
print(weekly.describe().round(1).to_dict())
print(pd.crosstab(orders["channel"], orders["is_gift"], normalize="index").round(3))
notes = orders["note"].str.split(r"[;\s]+", regex=True).explode().str.lower()
print(notes[notes != ""].value_counts().to_dict())
top = orders.nlargest(3, "revenue")[["order_id", "product", "revenue"]]
print(top.to_dict("records"))
print(orders.memory_usage(index=False).gt(0).all(), orders.isna().sum().sum(), orders.dtypes.astype(str).to_dict())
