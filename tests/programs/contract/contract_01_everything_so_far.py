"""Everything that came before the exception is there."""

import sys

import matplotlib.pyplot as plt
import pandas as pd

table = pd.DataFrame({"a": [1, 2]})
plt.plot([1, 2, 3])
with open("before.txt", "w") as file:
    file.write("written before")
print("printed before")
print("warned before", file=sys.stderr)


def inner(key):
    return {"here": 1}[key]


def outer():
    return inner("missing")


outer()
print("never printed")

# expect error: "KeyError: 'missing'"
# expect kind: "exception"
# expect line: 17
# expect stdout: "printed before\n"
# expect files: ["before.txt", "plots/plot_1.png"]
# expect plots: ["plots/plot_1.png"]
# expect dataframes: ["table"]
# expect stderr has: ["warned before\n", "Traceback (most recent call last):\n", "File \"<string>\", line 24, in <module>", "File \"<string>\", line 17, in inner", "return {\"here\": 1}[key]", "KeyError: 'missing'"]
# expect stderr lacks: ["belljar", "runner", "exec("]
# expect traceback has: ["line 24, in <module>", "line 21, in outer", "line 17, in inner"]
