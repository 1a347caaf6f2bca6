"""Whatever of the libraries is patched: it is not called, and nothing of the outcome is lost."""

import atexit
import builtins
import io
import json
import os
import re
import sys
from unittest import mock

import matplotlib.backends.backend_agg as agg
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

df = pd.DataFrame({"a": [1, 2]})
result = {"n": np.arange(3)}
plt.plot([1, 2])
names = """
os.makedirs os.path.join os.path.lexists os.path.isdir os.stat os.getcwd os.mkdir os.lstat
io.BytesIO io.open json.dumps re.compile builtins.open builtins.sorted builtins.max
np.asarray np.zeros np.array pd.DataFrame pd.Series pd.DataFrame.to_string pd.DataFrame.head
plt.Figure.savefig plt.Figure.draw plt.savefig plt.close agg.RendererAgg
agg.FigureCanvasAgg.print_png agg.FigureCanvasAgg.print_figure agg.FigureCanvasAgg.draw
""".split()
known = {
    "os": os,
    "io": io,
    "json": json,
    "re": re,
    "builtins": builtins,
    "np": np,
    "pd": pd,
    "plt": plt,
    "agg": agg,
}
calls, write, text = [], os.write, str


def seen(name):
    def call(*args, **kwargs):
        calls.append(name)
        raise AssertionError(name)

    return call


patches = []
for name in names:
    first, *middle, last = name.split(".")
    owner = known[first]
    for part in middle:
        owner = getattr(owner, part)
    patches.append(mock.patch.object(owner, last, seen(name)))
for patch in reversed(patches):
    patch.start()
plt.show()
atexit.register(lambda: write(1, text(calls).encode()))

# expect stdout: "[]"
# expect plots: ["plots/plot_1.png"]
# expect dataframes: ["df"]
# expect repr of df: "   a\n0  1\n1  2"
# expect result: {"n": [0, 1, 2]}
