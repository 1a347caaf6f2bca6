import numpy as np
import pandas as pd

index = pd.date_range("2020-01-01", periods=1_500, freq="D")
series = pd.Series(np.sin(np.arange(1_500) / 30) * 10 + np.arange(1_500) / 100, index=index)
print(series.rolling(30).mean().dropna().iloc[[0, -1]].round(4).tolist(), series.resample("ME").max().head(2))
print(series.pct_change().abs().mean().round(5), series["2021-03"].sum().round(4), series.shift(7).corr(series).round(5))
print(series.ewm(span=10).mean().iloc[-1].round(5), series.diff().idxmax(), series.groupby(series.index.year).std().round(4).to_dict())
print(series.to_frame("v").assign(q=lambda f: f.index.quarter).groupby("q")["v"].describe().round(3).iloc[0].tolist())
