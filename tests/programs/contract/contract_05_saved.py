"""What the code saved itself is a file and a plot."""

import io
import os
import pathlib

import matplotlib.pyplot as plt

os.mkdir("charts")
figure, axes = plt.subplots()
axes.plot([1, 2])
figure.savefig("charts/one.png")
plt.savefig(pathlib.Path("two.svg"))
figure.savefig("three")
figure.savefig(io.BytesIO())
with open("four.png", "wb") as file:
    figure.savefig(file)
plt.close("all")

# expect files: ["charts/one.png", "four.png", "three.png", "two.svg"]
# expect plots: ["charts/one.png", "two.svg", "three.png", "four.png"]
