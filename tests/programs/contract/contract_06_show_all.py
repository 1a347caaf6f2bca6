"""All open figures are shown, by number, whichever is current, and none stays open."""

import matplotlib.pyplot as plt

for number, width in ((3, 3), (1, 1), (2, 2)):
    plt.figure(number, figsize=(width, 1))
plt.figure(1)
plt.show()
print(plt.get_fignums())
print(plt.figure().number)
plt.close()

# expect stdout: "[]\n1\n"
# expect plots: ["plots/plot_1.png", "plots/plot_2.png", "plots/plot_3.png"]
# expect sizes: [[100, 100], [200, 100], [300, 100]]
