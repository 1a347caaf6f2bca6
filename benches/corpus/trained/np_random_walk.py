import numpy as np

rng = np.random.default_rng(42)
steps = rng.choice([-1, 1], size=(400, 300))
paths = steps.cumsum(axis=1)
print(paths.max(), paths[:, -1].mean(), np.percentile(paths[:, -1], [5, 50, 95]))
hits = (np.abs(paths) >= 20).any(axis=1)
first = (np.abs(paths[hits]) >= 20).argmax(axis=1)
print(hits.sum(), first.mean().round(3), np.histogram(paths[:, -1], bins=6)[0])
weights = rng.dirichlet(np.ones(5), size=1_000)
print(weights.sum(axis=1).round(6).min(), rng.integers(0, 9, 5), rng.permutation(6))
