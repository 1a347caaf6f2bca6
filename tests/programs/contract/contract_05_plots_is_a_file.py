"""The directory for figures cannot be made: the figure is lost, and nothing else is."""

import matplotlib.pyplot as plt

with open("plots", "w") as file:
    file.write("in the way")
plt.plot([1, 2])
result = 1

# expect success: true
# expect result: 1
# expect plots: []
# expect contents: {"plots": "in the way"}
