import numpy as np
import pandas as pd

rng = np.random.default_rng(3)
frame = pd.DataFrame({
    "day": pd.date_range("2024-01-01", periods=3_000, freq="h"),
    "shop": rng.choice(["north", "south", "east"], 3_000),
    "units": rng.integers(1, 30, 3_000),
    "price": rng.uniform(2, 9, 3_000).round(2),
})
frame["revenue"] = frame["units"] * frame["price"]
print(frame.groupby("shop")["revenue"].agg(["sum", "mean", "count"]).round(2))
print(frame.resample("W", on="day")["revenue"].sum().round(2).head(3))
print(frame.pivot_table(index=frame.day.dt.day_name(), columns="shop", values="units", aggfunc="sum").head(3))
print(frame.nlargest(3, "revenue")[["shop", "units"]], frame.describe().round(2).loc["mean"])
