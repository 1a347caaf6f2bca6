import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.close()

# expect files: []
# expect plots: []
