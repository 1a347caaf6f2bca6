import numpy as np
import pandas as pd

frame = pd.DataFrame({"n": [1, 2], "t": ["a", None], "d": pd.to_datetime(["2024-01-01", None])})
result = {
    "frame": frame,
    "series": pd.Series([1.5, np.nan]),
    "index": pd.Index(["a", "b"]),
    "timestamp": pd.Timestamp("2024-01-01 12:00"),
    "missing": [pd.NaT, pd.NA],
    "category": pd.Series(["x", "y"], dtype="category"),
    "period": pd.Period("2024-01", "M"),
}

# expect result: {"frame": [{"n": 1, "t": "a", "d": "2024-01-01T00:00:00"}, {"n": 2, "t": null, "d": null}], "series": [1.5, "NaN"], "index": ["a", "b"], "timestamp": "2024-01-01T12:00:00", "missing": [null, null], "category": ["x", "y"], "period": "2024-01"}
