"""Data is read, summed up and left in a variable for the caller."""

import io

import pandas as pd

sales = pd.read_csv(io.StringIO("region,amount\nNorth,10\nSouth,20\nNorth,5\n"))
totals = sales.groupby("region")["amount"].sum()
print(totals.to_dict())

# expect stdout: "{'North': 15, 'South': 20}\n"
# expect dataframes: ["sales", "totals"]
