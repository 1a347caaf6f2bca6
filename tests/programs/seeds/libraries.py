"""Every library that the tutorials name, doing something."""

import matplotlib
import numpy as np
import pandas as pd
import scipy.optimize
import seaborn
import statsmodels.api as sm
from sklearn.cluster import KMeans

matplotlib.use("Agg")
frame = pd.DataFrame({"x": np.arange(10.0), "y": 3 * np.arange(10.0) + 1})
root = scipy.optimize.brentq(lambda x: x**2 - 2, 0, 2)
fit = sm.OLS(frame["y"], sm.add_constant(frame["x"])).fit()
clusters = KMeans(2, n_init=1, random_state=0).fit(frame[["x"]])
axes = seaborn.scatterplot(frame, x="x", y="y")
axes.figure.savefig("scatter.png")
matplotlib.pyplot.close("all")
result = {
    "root": round(root, 6),
    "slope": round(float(fit.params["x"]), 6),
    "clusters": len(set(clusters.labels_)),
}

# expect result: {"root": 1.414214, "slope": 3.0, "clusters": 2}
# expect plots: ["scatter.png"]
