import numpy as np

x = np.arange(1_000_000) / 1000.0
y = np.sin(x) * np.exp(-x / 500) + np.sqrt(x)
order = np.argsort(y)
z = np.where(y > 1.0, y, 0.0).cumsum()
print(round(float(z[-1]), 3), int(order[0]), round(float(np.sort(y)[-1]), 6))
