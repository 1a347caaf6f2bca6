"""The same for numpy, pandas and matplotlib: their generators, and the bytes of a figure."""

import hashlib
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

generator = np.random.default_rng()
print(np.random.rand(3), generator.normal(size=3), np.random.default_rng(1).integers(0, 9, 5))
frame = pd.DataFrame({"x": generator.random(50), "t": pd.Timestamp.now()}).sample(10)
print(frame, frame.describe(), time.time(), pd.Timestamp.now("UTC"))
plt.scatter(frame["x"], np.random.rand(10))
plt.title(str(pd.Timestamp.now()))
plt.savefig("scatter.png")
plt.savefig("scatter.svg")
plt.savefig("scatter.pdf")
for name in ("scatter.png", "scatter.svg", "scatter.pdf"):
    with open(name, "rb") as file:
        print(name, hashlib.sha256(file.read()).hexdigest())
result = frame
