import numpy as np

n = 400
a = (np.arange(n * n) % 97).reshape(n, n) / 97.0
b = a.T.copy()
c = a @ b
for _ in range(2):
    c = (c / c.max()) @ b
print(round(float(c.trace()), 6))
