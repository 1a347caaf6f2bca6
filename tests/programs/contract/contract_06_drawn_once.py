"""A figure is drawn once if the code shows it as it has saved it."""

import atexit

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D


class Counted(Line2D):
    drawn = 0

    def draw(self, renderer):
        Counted.drawn += 1
        super().draw(renderer)


atexit.register(lambda: print(Counted.drawn))
figure = plt.figure()
figure.add_artist(Counted([0, 1], [0, 1]))
name = "one.png"
plt.savefig(name)
print(f"saved {name}")
plt.show()

# expect stdout: "saved one.png\n1\n"
# expect plots: ["one.png", "plots/plot_1.png"]
