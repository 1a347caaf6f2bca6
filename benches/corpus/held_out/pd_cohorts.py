import numpy as np
import pandas as pd

rng = np.random.default_rng(21)
frame = pd.DataFrame({"user": rng.integers(0, 300, 4_000), "day": rng.integers(0, 360, 4_000), "spent": rng.gamma(2, 10, 4_000)})
frame["date"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(frame["day"], unit="D")
frame["month"] = frame["date"].dt.to_period("M")
frame["first"] = frame.groupby("user")["month"].transform("min")
frame["age"] = (frame["month"] - frame["first"]).map(lambda offset: offset.n)
table = frame.pivot_table(index="first", columns="age", values="user", aggfunc="nunique").fillna(0)
print(table.iloc[:3, :4], frame.groupby("user")["spent"].sum().rank(ascending=False).head(3).tolist())
print(frame.sort_values(["user", "date"]).groupby("user")["day"].diff().mean().round(4))
