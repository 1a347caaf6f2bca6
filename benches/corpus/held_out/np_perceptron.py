import numpy as np

rng = np.random.default_rng(3)
x = rng.normal(size=(300, 2))
y = (x[:, 0] * x[:, 1] > 0).astype(float).reshape(-1, 1)
w1, b1 = rng.normal(size=(2, 16)), np.zeros(16)
w2, b2 = rng.normal(size=(16, 1)), np.zeros(1)
for _ in range(250):
    hidden = np.tanh(x @ w1 + b1)
    output = 1 / (1 + np.exp(-(hidden @ w2 + b2)))
    error = output - y
    grad = error @ w2.T * (1 - hidden**2)
    w2 -= 0.5 * hidden.T @ error / 300
    b2 -= 0.5 * error.mean(axis=0)
    w1 -= 0.5 * x.T @ grad / 300
    b1 -= 0.5 * grad.mean(axis=0)
print(((output > 0.5) == y).mean().round(3), np.abs(error).mean().round(4))
