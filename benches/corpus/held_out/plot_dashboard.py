import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

frame = pd.DataFrame({"m": pd.date_range("2024-01", periods=12, freq="MS"), "v": np.arange(12) ** 1.5, "w": 40 - np.arange(12)})
figure, axis = plt.subplots(figsize=(7, 4))
axis.fill_between(frame["m"], frame["v"], alpha=0.3)
axis.step(frame["m"], frame["w"], where="mid", color="tab:red", label="w")
axis.annotate("peak", (frame["m"][11], frame["v"][11]), xytext=(-40, -20), textcoords="offset points")
axis.twinx().boxplot([frame["v"], frame["w"]])
axis.legend(loc="upper left")
figure.autofmt_xdate()
figure.savefig("dashboard.png")
print(axis.get_ylim()[0] < 0)
