"""A simple bar chart of [3, 7, 2, 9, 5], saved as chart.png."""

import matplotlib.pyplot as plt

plt.bar(range(5), [3, 7, 2, 9, 5])
plt.title("Bars")
plt.savefig("chart.png")
plt.close()

# expect files: ["chart.png"]
# expect plots: ["chart.png"]
