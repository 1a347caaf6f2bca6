import pandas as pd

frame = pd.DataFrame({"n": range(60), "x": [i / 7 for i in range(60)], "s": [f"s{i}" for i in range(60)]})
print(frame)
print(frame.head(10).to_string(index=False))
frame.info()
print(frame.describe(include="all"))
print(frame.to_json(orient="records")[:80], len(frame.to_html()), frame.dtypes.to_dict())
print(frame.style.__class__.__name__, frame.T.iloc[:, :4], frame["x"].value_counts(bins=3))
