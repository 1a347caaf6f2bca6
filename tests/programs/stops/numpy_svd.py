"""One call into numpy that takes many minutes."""

import numpy as np

print("started")
matrix = np.random.default_rng(1).random((2000, 2000))
np.linalg.svd(matrix)
