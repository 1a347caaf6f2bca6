import io

import numpy as np
import pandas as pd

rng = np.random.default_rng(5)
index = pd.date_range("2022-01-03", periods=500, freq="B", name="date")
moves = rng.normal(0.0004, 0.012, (500, 3)) + rng.normal(0, 0.006, (500, 1))
prices = pd.DataFrame(100 * np.exp(np.cumsum(moves, axis=0)), index=index, columns=["AAA", "BBB", "CCC"])
prices.iloc[100:104, 1] = np.nan

text = prices.round(4).to_csv()
loaded = pd.read_csv(io.StringIO(text), parse_dates=["date"], index_col="date")
print(loaded.isna().sum().to_dict())
loaded = loaded.interpolate().ffill()

returns = loaded.pct_change().dropna()
print((returns.mean() * 252).round(4).to_dict())
print((returns.std() * np.sqrt(252)).round(4).to_dict())
print(returns.corr().round(3))

short, long = loaded.rolling(20).mean(), loaded.rolling(60).mean()
signal = (short > long).astype(int)
crossings = signal.diff().abs().sum()
strategy = (signal.shift(1) * returns).sum(axis=1) / 3
wealth = (1 + strategy).cumprod()
drawdown = wealth / wealth.cummax() - 1
print("crossings:", crossings.astype(int).to_dict())
print("wealth:", round(wealth.iloc[-1], 4), "drawdown:", round(drawdown.min(), 4), "on", drawdown.idxmin().date())

monthly = loaded.resample("ME").agg(["first", "last", "max"])
monthly.columns = ["_".join(column) for column in monthly.columns]
print(monthly.filter(like="AAA").tail(4).round(2))
by_weekday = returns.groupby(returns.index.day_name())["AAA"].agg(["mean", "std", "count"])
print(by_weekday.sort_values("mean").round(5))

spans = loaded["AAA"].ewm(span=12).mean() - loaded["AAA"].ewm(span=26).mean()
print(spans.tail(3).round(4).tolist(), loaded["BBB"].expanding().max().iloc[[10, 200, -1]].round(2).tolist())
stacked = returns.stack().rename("return").reset_index()
worst = stacked.loc[stacked.groupby("level_1")["return"].idxmin()]
print(worst.round(4).to_string(index=False))
print(loaded.asof(pd.Timestamp("2022-07-02")).round(2).to_dict(), loaded.between_time("00:00", "01:00").shape)
