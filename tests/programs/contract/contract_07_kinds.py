"""What counts as a pandas object, and what does not."""

import pandas as pd
from pandas import DataFrame, Series  # noqa: F401

zebra = pd.DataFrame({"a": [1, 1, 2]})
apple = pd.Series([1, 2])
index = pd.Index([1, 2])
groups = zebra.groupby("a")
moment = pd.Timestamp("2024-01-01")
number = 5
text = "pandas"
listed = [zebra]
__hidden = zebra
_shown = apple

# expect dataframes: ["zebra", "apple", "index", "groups", "moment", "_shown"]
# expect repr of zebra: "   a\n0  1\n1  1\n2  2"
# expect repr of moment: "Timestamp('2024-01-01 00:00:00')"
