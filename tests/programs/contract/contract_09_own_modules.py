"""Modules and packages that the code writes can be imported, also after another import failed."""

import os
import sys

os.makedirs("shapes")
with open("shapes/__init__.py", "w") as file:
    file.write("from .circle import area\n")
with open("shapes/circle.py", "w") as file:
    file.write("def area(r):\n    return 3 * r * r\n")
try:
    import later
except ImportError:
    with open("later.py", "w") as file:
        file.write("value = 7\n")
import importlib  # noqa: E402

importlib.invalidate_caches()
import later  # noqa: E402, F811
import shapes  # noqa: E402

print(shapes.area(2), later.value, "shapes" in sys.modules)

# expect stdout: "12 7 True\n"
