import numpy as np

result = {
    "scalars": [np.int64(1), np.float32(0.5), np.bool_(True), np.str_("x")],
    "array": np.arange(4).reshape(2, 2),
    "nothing": np.array([]),
    "point": np.array(5),
    "nan": np.array([1.0, np.nan, np.inf]),
    "instant": np.datetime64("2024-02-29"),
    "duration": np.timedelta64(90, "s"),
    "text": np.array(["a", "b"]),
}

# expect result: {"scalars": [1, 0.5, true, "x"], "array": [[0, 1], [2, 3]], "nothing": [], "point": 5, "nan": [1.0, "NaN", "Infinity"], "instant": "2024-02-29", "duration": 90.0, "text": ["a", "b"]}
