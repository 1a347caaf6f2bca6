"""Two years of sales: who sells what, which way it goes, and a chart.

belljar run examples/sales.py --file examples/sales.csv --out out
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

sales = pd.read_csv("sales.csv", parse_dates=["date"])
missing = int(sales["units"].isna().sum())
sales = sales.dropna(subset=["units"])
sales["revenue"] = sales["units"] * sales["unit_price"]
sales["month"] = sales["date"].dt.to_period("M")
print(f"{len(sales)} sales, {missing} without a number of units left out\n")

by_product = sales.pivot_table(
    index="product", columns="region", values="revenue", aggfunc="sum", margins=True
)
print("Revenue by product and region")
print(by_product.round(0).astype(int).to_string(), end="\n\n")

monthly = sales.pivot_table(index="month", columns="region", values="revenue", aggfunc="sum")
months = np.arange(len(monthly))
trend = pd.DataFrame(
    {region: np.polyfit(months, monthly[region], 1) for region in monthly},
    index=["per month", "at start"],
).T
trend["first year"] = monthly.iloc[:12].sum()
trend["second year"] = monthly.iloc[12:].sum()
trend["change %"] = (trend["second year"] / trend["first year"] - 1) * 100
trend = trend.sort_values("change %", ascending=False)
print("Trend by region")
print(trend.round(1).to_string(), end="\n\n")

best = trend.index[0]
print(f"{best} grows fastest: {trend.loc[best, 'change %']:+.1f} % in a year")

figure, axes = plt.subplots(figsize=(9, 4.5))
for region in trend.index:
    (line,) = axes.plot(monthly.index.to_timestamp(), monthly[region], marker=".", label=region)
    slope, start = trend.loc[region, ["per month", "at start"]]
    axes.plot(monthly.index.to_timestamp(), start + slope * months, "--", color=line.get_color())
axes.set_title("Monthly revenue and its trend, by region")
axes.set_ylabel("revenue")
axes.grid(alpha=0.3)
axes.legend(ncols=4, loc="upper center", frameon=False)
axes.set_ylim(0, monthly.max().max() * 1.2)
figure.tight_layout()
figure.savefig("sales.png", dpi=120)
plt.close(figure)

result = {
    "revenue": round(float(sales["revenue"].sum()), 2),
    "fastest": best,
    "change": trend["change %"].round(1).to_dict(),
}
