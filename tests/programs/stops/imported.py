"""Loops while a module of its own is being imported."""

import sys

with open("endless_module.py", "w") as file:
    file.write("while True:\n    pass\n")
sys.path.insert(0, ".")
print("started")
import endless_module  # noqa: E402, F401
