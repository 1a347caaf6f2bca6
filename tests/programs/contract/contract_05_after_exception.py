import matplotlib.pyplot as plt

plt.plot([1, 2])
raise ValueError("after the plot")

# expect error: "ValueError: after the plot"
# expect plots: ["plots/plot_1.png"]
