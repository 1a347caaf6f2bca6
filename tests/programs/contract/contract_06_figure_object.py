"""A figure that pyplot never saw."""

from matplotlib.figure import Figure

figure = Figure()
figure.subplots().plot([1, 2])
figure.show()

# expect plots: ["plots/plot_1.png"]
