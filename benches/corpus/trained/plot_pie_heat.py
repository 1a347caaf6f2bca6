import matplotlib.pyplot as plt
import numpy as np

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.pie([40, 30, 20, 10], labels=["one", "two", "three", "four"], autopct="%1.0f%%")
image = right.imshow(np.outer(np.arange(12), np.arange(12)) % 7, cmap="viridis")
figure.colorbar(image, ax=right)
right.set_xlabel("x")
right.grid(True)
plt.savefig("heat.png", dpi=80)
print("saved")
