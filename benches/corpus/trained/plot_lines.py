import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 200)
figure, axes = plt.subplots(2, 2, figsize=(8, 6))
axes[0, 0].plot(x, np.sin(x), label="sin")
axes[0, 0].plot(x, np.cos(x), "--", label="cos")
axes[0, 0].legend()
axes[0, 1].scatter(x, np.sin(x) ** 2, c=x, s=8)
axes[1, 0].bar(["a", "b", "c"], [3, 7, 5])
axes[1, 1].hist(np.sin(x), bins=20)
axes[1, 1].set_title("histogram")
figure.tight_layout()
figure.savefig("lines.png")
print(len(figure.axes))
