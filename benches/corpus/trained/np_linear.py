import numpy as np

rng = np.random.default_rng(5)
a = rng.normal(size=(60, 60)) + np.eye(60) * 8
b = rng.normal(size=60)
x = np.linalg.solve(a, b)
values = np.linalg.eigvalsh(a + a.T)
u, s, vt = np.linalg.svd(a)
print(np.allclose(a @ x, b), values[0].round(4), s[:2].round(4), np.linalg.det(a / 8).round(4))
print(np.allclose(np.linalg.inv(a) @ a, np.eye(60)), np.linalg.norm(u @ np.diag(s) @ vt - a) < 1e-9)
coefficients = np.polyfit(np.arange(50.0), np.arange(50.0) ** 2 + 3, 2)
print(coefficients.round(6), np.outer([1, 2], [3, 4]), np.trace(a).round(4))
