"""A hook that fails hides nothing, and figures are captured after it."""

import sys

import matplotlib.pyplot as plt


def hook(kind, error, trace):
    raise LookupError("the hook")


plt.plot([1, 2])
sys.excepthook = hook
raise ValueError("the code")

# expect kind: "exception"
# expect error: "ValueError: the code"
# expect stderr has: ["Error in sys.excepthook:", "LookupError: the hook", "Original exception was:", "ValueError: the code"]
# expect stderr lacks: ["belljar"]
# expect plots: ["plots/plot_1.png"]
