"""What was shown is saved, not a blank page; what begins afterwards is a figure of its own."""

import matplotlib.pyplot as plt

plt.figure(figsize=(2, 1))
plt.plot([1, 2])
plt.show()
plt.savefig("a.png")
plt.plot([3, 1])
print(len(plt.gca().lines))
plt.savefig("b.png")
plt.show()

# expect stdout: "1\n"
# expect plots: ["plots/plot_1.png", "a.png", "b.png", "plots/plot_2.png"]
# expect sizes: [[200, 100], [200, 100], [640, 480], [640, 480]]
