"""A figure that is shown by itself stays open, as with Agg, and is captured again if it changes."""

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(2, 1))
axes.plot([1, 2])
figure.show()
print(plt.get_fignums(), len(plt.gcf().axes), len(figure.axes[0].lines))
plt.savefig("same.png")
changed = plt.figure(figsize=(3, 1))
changed.show()
changed.add_subplot()

# expect stdout: "[1] 1 1\n"
# expect plots: ["plots/plot_1.png", "same.png", "plots/plot_2.png", "plots/plot_3.png"]
# expect sizes: [[200, 100], [200, 100], [300, 100], [300, 100]]
