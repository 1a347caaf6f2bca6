import numpy as np
import pandas as pd

np.random.seed(0)

# Create sample data
df = pd.DataFrame(
    {
        "date": pd.date_range("2024-01-01", periods=30),
        "sales": np.random.randint(100, 1000, 30),
        "region": np.random.choice(["North", "South", "East"], 30),
    }
)

# Analyze
summary = df.groupby("region")["sales"].agg(["mean", "sum"])
print(summary)
result = {"regions": sorted(df["region"].unique()), "total": int(summary["sum"].sum())}

# expect dataframes: ["df", "summary"]
# expect result: {"regions": ["East", "North", "South"], "total": 18329}
