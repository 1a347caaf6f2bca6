import json

import pandas as pd

records = [{"id": i, "user": {"name": f"u{i % 40}", "plan": ["free", "pro"][i % 2]}, "items": [{"p": i % 9, "q": 2}] * (i % 3)} for i in range(600)]
flat = pd.json_normalize(json.loads(json.dumps(records)))
items = pd.json_normalize(records, "items", ["id", ["user", "plan"]])
items["total"] = items["p"] * items["q"]
summary = items.groupby("user.plan")["total"].sum().sort_values(ascending=False)
print(flat.columns.tolist(), summary.to_dict(), items.merge(flat[["id", "user.name"]], on="id")["user.name"].nunique())
print(summary.to_frame().to_markdown() if False else summary.to_string())
