"""Figures of a `matplotlib.pyplot` of the code's own are saved as it can: by a path alone."""

import sys
import types


class Figure:
    def savefig(self, path):
        with open(path, "wb") as file:
            file.write(b"figure")


pyplot = types.ModuleType("matplotlib.pyplot")
pyplot.get_fignums = lambda: [1, 3]
pyplot.figure = lambda number: Figure()
sys.modules["matplotlib"] = types.ModuleType("matplotlib")
sys.modules["matplotlib.pyplot"] = sys.modules["matplotlib"].pyplot = pyplot

# expect files: ["plots/plot_1.png", "plots/plot_2.png"]
# expect plots: ["plots/plot_1.png", "plots/plot_2.png"]
