import io
from datetime import date, timedelta

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

rng = np.random.default_rng(1)
days = [date(2024, 1, 1) + timedelta(days=i) for i in range(180)]
spent = np.cumsum(rng.gamma(2.0, 60.0, len(days)))
planned = np.linspace(0, 22_000, len(days))
parts = {"rent": 9000, "food": 5200, "travel": 3100, "other": 2400}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), gridspec_kw={"width_ratios": [3, 2]})
left.plot(days, spent, color="tab:red", label="spent")
left.plot(days, planned, color="gray", linestyle="--", label="planned")
left.fill_between(days, spent, planned, where=spent > planned, alpha=0.2, color="tab:red", interpolate=True)
left.xaxis.set_major_locator(mdates.MonthLocator())
left.xaxis.set_major_formatter(mdates.DateFormatter("%b"))
left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:.0f}k"))
left.legend(loc="upper left")
left.grid(alpha=0.3)
over = int(np.argmax(spent > planned))
left.annotate("over budget", (days[over], spent[over]), xytext=(20, 40), textcoords="offset points", arrowprops={"arrowstyle": "->"})

bars = right.barh(list(parts), list(parts.values()), color=plt.cm.viridis(np.linspace(0.2, 0.8, len(parts))))
right.bar_label(bars, fmt="{:,.0f}", padding=3)
right.set_xlim(0, 11_000)
right.set_title(r"Parts, $\sum = 19\,700$")
twin = left.twinx()
twin.plot(days, spent - planned, linewidth=0.8)
figure.suptitle("Budget")

buffer = io.BytesIO()
figure.savefig(buffer, format="png", dpi=80, bbox_inches="tight")
plt.close(figure)
data = buffer.getvalue()
print(data[:8], len(data) > 10_000, over)
print([tick.get_text() for tick in right.get_yticklabels()], round(float(spent[-1]), 2))
