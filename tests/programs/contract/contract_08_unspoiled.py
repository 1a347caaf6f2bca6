"""Finds nothing of what another run changed."""

import builtins
import json
import os
import random
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

found = {
    "variable": "leaked" in globals(),
    "len": len([1, 2]) != 2,
    "builtin": hasattr(builtins, "leaked_builtin"),
    "json": json.dumps([1]) != "[1]",
    "module": "os.spoiled" in sys.modules,
    "path": "/spoiled" in sys.path,
    "argv": "spoiled" in sys.argv,
    "environment": "SPOILED" in os.environ or "HOME" not in os.environ,
    "recursion": sys.getrecursionlimit() < 1000,
    "random": random.random() == random.Random(1).random(),
    "numpy's random": np.random.rand() == np.random.RandomState(1).rand(),
    "numpy's options": np.get_printoptions()["precision"] != 8,
    "pandas' options": pd.get_option("display.max_rows") != 60,
    "matplotlib's options": plt.rcParams["figure.figsize"] == [1.0, 1.0],
    "figures": bool(plt.get_fignums()),
    "warnings": any(action == "error" for action, *_ in warnings.filters),
    "class": hasattr(pd.DataFrame, "spoiled"),
    "files": os.listdir("."),
    "temporary files": os.path.exists("/tmp/spoiled"),
}
result = [name for name, is_there in found.items() if is_there]

# expect result: []
