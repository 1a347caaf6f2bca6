import numpy as np
import pandas as pd

n = 120_000
frame = pd.DataFrame({"k": np.arange(n) % 500, "g": np.arange(n) % 7, "x": np.arange(n) * 0.5})
means = frame.groupby("k").x.agg(["mean", "sum", "max"])
table = frame.pivot_table(index="k", columns="g", values="x", aggfunc="sum")
joined = frame.merge(means.reset_index(), on="k").sort_values("x", ascending=False)
print(means["sum"].sum(), table.shape, joined.x.iloc[0])
