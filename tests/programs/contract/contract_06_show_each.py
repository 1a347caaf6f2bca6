"""Every call is kept, in order, also between figures that the code saves."""

import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.show()
plt.plot([2, 1])
plt.savefig("between.png")
plt.show()
print(plt.get_fignums())
plt.plot([3, 3])

# expect stdout: "[]\n"
# expect plots: ["plots/plot_1.png", "between.png", "plots/plot_2.png", "plots/plot_3.png"]
