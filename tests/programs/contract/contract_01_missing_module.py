"""CPython's advice about virtual environments applies to none here, and is left out."""

import polars

print(polars.__version__)

# expect error: "ModuleNotFoundError: No module named 'polars'"
# expect stderr: "Traceback (most recent call last):\n  File \"<string>\", line 3, in <module>\n    import polars\nModuleNotFoundError: No module named 'polars'\n"
# expect traceback lacks: ["Site initialization"]
# expect hint has: ["`polars` is not installed"]
