"""A text that is longer than the caller takes is cut."""

import pandas as pd

pd.set_option("display.max_rows", None)
frame = pd.DataFrame({"x": range(10_000)})

# expect dataframes: ["frame"]
# expect truncated: ["dataframes"]
