"""What a data platform's agent does first: missing values, outliers, summary statistics."""

import io

import pandas as pd

csv = "a,b\n1,10\n2,\n3,30\n4,40\n100,50\n"
frame = pd.read_csv(io.StringIO(csv))
missing = frame.isna().sum().to_dict()
spread = (frame["a"] - frame["a"].median()).abs()
outliers = frame.loc[spread > 5 * spread.median(), "a"].tolist()
result = {"missing": missing, "outliers": outliers, "mean of b": frame["b"].mean()}

# expect result: {"missing": {"a": 0, "b": 1}, "outliers": [100], "mean of b": 32.5}
