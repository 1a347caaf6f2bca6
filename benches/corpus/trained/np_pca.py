import numpy as np

rng = np.random.default_rng(12)
names = ["height", "weight", "age", "income", "steps", "sleep"]
base = rng.normal(size=(600, 2))
mixing = rng.normal(size=(2, len(names)))
data = base @ mixing + 0.3 * rng.normal(size=(600, len(names)))
data[rng.random(data.shape) < 0.02] = np.nan

means = np.nanmean(data, axis=0)
missing = np.isnan(data)
data = np.where(missing, means, data)
scaled = (data - data.mean(axis=0)) / data.std(axis=0, ddof=1)

u, s, vt = np.linalg.svd(scaled, full_matrices=False)
explained = s**2 / np.sum(s**2)
scores = u * s
print("missing:", int(missing.sum()))
print("explained:", np.round(explained, 3))
print("together:", np.round(np.cumsum(explained), 3)[:3])

covariance = np.cov(scaled, rowvar=False)
values, vectors = np.linalg.eigh(covariance)
print("same as eigenvalues:", np.allclose(values[::-1], s**2 / (len(scaled) - 1)))

rebuilt = scores[:, :2] @ vt[:2]
errors = np.sqrt(((scaled - rebuilt) ** 2).mean(axis=0))
for name, error in sorted(zip(names, errors), key=lambda pair: pair[1]):
    print(f"{name:<8}{error:8.4f}")

correlations = np.corrcoef(scaled, rowvar=False)
rows, columns = np.triu_indices(len(names), k=1)
strongest = np.argsort(-np.abs(correlations[rows, columns]))[:3]
for i in strongest:
    print(names[rows[i]], names[columns[i]], round(float(correlations[rows[i], columns[i]]), 3))

bootstrap = []
for _ in range(700):
    sample = scaled[rng.integers(0, len(scaled), len(scaled))]
    bootstrap.append(np.linalg.svd(sample, compute_uv=False)[0] ** 2)
low, high = np.percentile(np.array(bootstrap) / (len(scaled) - 1), [2.5, 97.5])
print(f"first component: {low:.3f} to {high:.3f}")
