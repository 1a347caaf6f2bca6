"""A line through noisy points: numpy fits it, bootstrapping says how sure that is.

belljar run examples/regression.py --out out
"""

import matplotlib.pyplot as plt
import numpy as np

random = np.random.default_rng(7)
x = np.linspace(0, 10, 60)
y = 1.5 * x + 4 + random.normal(0, 2, x.size)

slope, intercept = np.polyfit(x, y, 1)
samples = random.integers(0, x.size, (500, x.size))
slopes = np.array([np.polyfit(x[s], y[s], 1)[0] for s in samples])
low, high = np.percentile(slopes, [2.5, 97.5])
print(f"slope {slope:.2f} (95 %: {low:.2f} to {high:.2f}), intercept {intercept:.2f}")

plt.scatter(x, y, s=14, label="measured")
plt.plot(x, intercept + slope * x, color="tab:red", label=f"{slope:.2f} x + {intercept:.2f}")
plt.legend(frameon=False)
plt.show()

result = {"slope": slope, "intercept": intercept, "interval": [low, high]}
