# aim = "outside"
# tries = "Has a figure saved outside of the workspace."
# needs = ["matplotlib"]
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.savefig("../outside/planted.png")
