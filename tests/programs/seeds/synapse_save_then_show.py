"""The tutorial's rule: save before showing, so that nothing is lost."""

import matplotlib.pyplot as plt

plt.plot([1, 4, 9])
plt.savefig("output.png")
plt.show()
print("done")

# expect stdout: "done\n"
# expect files: ["output.png", "plots/plot_1.png"]
# expect plots: ["output.png", "plots/plot_1.png"]
