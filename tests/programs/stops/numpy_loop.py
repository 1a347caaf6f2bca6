import numpy as np

numbers = np.arange(1_000_000, dtype=np.float64)
print("started")
while True:
    numbers = np.sqrt(numbers + 1)
