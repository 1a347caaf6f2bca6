import pandas as pd

frame = pd.DataFrame({"a": range(1_200), "b": [f"text {i % 30}" for i in range(1_200)], "c": [i % 7 / 2 for i in range(1_200)]})
frame["d"] = frame.apply(lambda row: row["a"] * row["c"] + len(row["b"]), axis=1)
frame["e"] = frame["b"].map(lambda text: text.split()[1]).astype(int)
frame["f"] = frame.groupby("e")["d"].transform("mean")
total = 0
for row in frame.itertuples():
    total += row.a * row.e
for _, row in frame.head(200).iterrows():
    total += row["c"]
print(total, frame["f"].round(3).head(3).tolist(), frame.groupby("e").apply(lambda g: g["d"].max() - g["d"].min()).sum())
