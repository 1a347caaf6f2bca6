import io

import numpy as np
import pandas as pd

n = 15_000
frame = pd.DataFrame({"a": np.arange(n), "b": np.arange(n) / 3, "c": [f"text {i}" for i in range(n)]})
text = frame.to_csv(index=False)
back = pd.read_csv(io.StringIO(text))
print(len(text), back.shape, round(float(back.b.sum()), 3))
