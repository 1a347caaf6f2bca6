import numpy as np

a = np.arange(60_000, dtype=float).reshape(300, 200)
b = np.sin(a) + np.sqrt(a) / 10
print(b.sum().round(6), b.mean(axis=0)[:3], b.std(axis=1).max().round(6), (b > 20).sum())
c = np.where(a % 2 == 0, a, -a)
print(c[::7, 3].cumsum()[-1], np.clip(c, -50, 50).sum(), c.argmax(), np.unique(a.astype(int) % 17))
print(np.concatenate([a[:3], a[-3:]]).shape, a.T[5, :4], np.allclose(a @ a.T, np.dot(a, a.T)))
