"""The default is enough for pandas and a plot."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100_000, 8)), columns=list("abcdefgh"))
summary = frame.describe()
frame.cumsum().iloc[::100].plot(title="walks")
plt.tight_layout()

# expect plots: ["plots/plot_1.png"]
# expect dataframes: ["frame", "summary"]
