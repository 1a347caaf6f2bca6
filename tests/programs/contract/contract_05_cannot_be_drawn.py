"""A figure that fails costs only itself."""

import matplotlib.pyplot as plt

plt.figure()
plt.title("$\\unknown{$")
plt.figure()
plt.plot([1, 2])

# expect success: true
# expect plots: ["plots/plot_1.png"]
# expect stderr has: ["\\unknown"]
