import os

import matplotlib.pyplot as plt

os.mkdir("plots")
with open("plots/plot_1.png", "w") as file:
    file.write("mine")
plt.plot([1, 2])
result = "ok"

# expect files: ["plots/plot_1.png", "plots/plot_2.png"]
# expect plots: ["plots/plot_2.png"]
# expect contents: {"plots/plot_1.png": "mine"}
