# aim = "others"
# tries = "Leaves figures that the next one's drawing goes into."
# needs = ["matplotlib"]
# then_prints = "[1]"
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
# --- then
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.figure()
print(plt.get_fignums())
