import matplotlib.pyplot as plt

plt.plot([1])
plt.show(block=True)
plt.plot([1])
plt.gcf().show()
plt.pause(0.001)

# expect stdout: ""
# expect plots: ["plots/plot_1.png", "plots/plot_2.png"]
