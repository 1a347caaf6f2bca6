"""A figure is drawn again if the code goes on after saving it: it may have changed unnoticed."""

import atexit

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D


class Counted(Line2D):
    drawn = 0

    def draw(self, renderer):
        Counted.drawn += 1
        super().draw(renderer)


atexit.register(lambda: print(Counted.drawn))
figure, axes = plt.subplots()
axes.add_artist(Counted([0, 1], [0, 1]))
label = axes.get_xticklabels()[0]
figure.savefig("one.png")
label.set_color("red")

# expect stdout: "2\n"
# expect plots: ["one.png", "plots/plot_1.png"]
