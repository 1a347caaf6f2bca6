import numpy as np

print(np.ones((8_000, 8_000)).sum())
