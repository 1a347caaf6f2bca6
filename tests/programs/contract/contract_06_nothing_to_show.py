import matplotlib.pyplot as plt

plt.show()

# expect stdout: "No active figure to save.\n"
# expect plots: []
# expect files: []
