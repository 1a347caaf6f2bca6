import io

import pandas as pd

text = "id,name,age,city,joined\n" + "\n".join(
    f"{i}, Name {i % 90} ,{'' if i % 11 == 0 else i % 70},{['Rome', 'rome ', 'PARIS'][i % 3]},2023-{i % 12 + 1:02}-15"
    for i in range(1_500)
)
frame = pd.read_csv(io.StringIO(text), parse_dates=["joined"])
frame["name"] = frame["name"].str.strip().str.upper()
frame["city"] = frame["city"].str.strip().str.title()
frame["age"] = frame["age"].fillna(frame["age"].median()).astype(int)
frame = frame.drop_duplicates(subset=["name", "city"]).reset_index(drop=True)
frame["group"] = pd.cut(frame["age"], [0, 18, 40, 99], labels=["young", "adult", "old"])
print(frame.shape, frame["city"].value_counts().to_dict(), frame["group"].value_counts().to_dict())
print(frame.isna().sum().sum(), frame["joined"].dt.month.max(), frame.to_csv(index=False)[:60])
