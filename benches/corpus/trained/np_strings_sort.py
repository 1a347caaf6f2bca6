import numpy as np

rng = np.random.default_rng(1)
values = rng.integers(0, 10_000, 20_000)
order = np.argsort(values, kind="stable")
print(values[order][:4], np.sort(values)[-3:], np.median(values), np.searchsorted(np.sort(values), 5_000))
names = np.array([f"name{v % 50}" for v in values[:4_000]])
unique, counts = np.unique(names, return_counts=True)
print(unique[:3], counts.max(), np.char.upper(names[:3]), np.bincount(values % 10))
records = np.array([(1, 2.5, "a"), (2, 1.5, "b")], dtype=[("i", int), ("f", float), ("s", "U5")])
print(np.sort(records, order="f")["s"], np.lexsort((values[:9] % 3, values[:9] % 2)), np.isin(values, [1, 2]).sum())
