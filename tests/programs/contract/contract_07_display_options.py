import pandas as pd

pd.set_option("display.precision", 1)
pd.set_option("display.max_rows", 4)
frame = pd.DataFrame({"x": [0.123456] * 10})

# expect dataframes: ["frame"]
# expect repr of frame: "      x\n0   0.1\n1   0.1\n..  ...\n8   0.1\n9   0.1\n\n[10 rows x 1 columns]"
