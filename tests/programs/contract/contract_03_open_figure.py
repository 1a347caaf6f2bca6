"""A figure that was open when the time ran out is kept, since a soft stop leaves time for it."""

import matplotlib.pyplot as plt

plt.figure(figsize=(1, 1))
plt.axis("off")
plt.plot([1, 2, 3])
while True:
    pass

# with timeout: 2
# expect kind: "timeout"
# expect plots: ["plots/plot_1.png"]
