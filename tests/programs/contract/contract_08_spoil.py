"""Changes everything that a later run could notice."""

import builtins
import json
import os
import random
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

leaked = "variable"
builtins.leaked_builtin = True
json.dumps = lambda *_: "spoiled"
sys.modules["os.spoiled"] = sys
sys.path.insert(0, "/spoiled")
sys.argv.append("spoiled")
os.environ["SPOILED"] = "yes"
os.environ.pop("HOME", None)
random.seed(1)
np.random.seed(1)
np.set_printoptions(precision=1)
pd.set_option("display.max_rows", 1)
plt.rcParams["figure.figsize"] = (1, 1)
plt.figure()
warnings.simplefilter("error")
pd.DataFrame.spoiled = True
with open("spoiled.txt", "w") as file:
    file.write("x")
os.makedirs("/tmp/spoiled", exist_ok=True)
with open("json.py", "w") as file:
    file.write("raise SystemExit('spoiled')\n")
# What else there is would fail after these.
builtins.len = lambda _: -1
sys.setrecursionlimit(50)
sys.stdout = open(os.devnull, "w") if os.path.exists(os.devnull) else None

# expect success: true
