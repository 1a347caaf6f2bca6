"""Open figures are captured in the order of their numbers."""

import matplotlib.pyplot as plt

for number in (7, 2, 4):
    plt.figure(number, figsize=(number, 1), dpi=10)
    plt.plot([1, 2])
plt.close(4)

# expect files: ["plots/plot_1.png", "plots/plot_2.png"]
# expect plots: ["plots/plot_1.png", "plots/plot_2.png"]
# expect sizes: [[20, 10], [70, 10]]
