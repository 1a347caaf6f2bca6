import numpy as np

rng = np.random.default_rng(12)
returns = rng.normal(0.0004, 0.012, (500, 8))
prices = 100 * np.exp(returns.cumsum(axis=0))
covariance = np.cov(returns.T)
weights = rng.dirichlet(np.ones(8), 2_000)
risk = np.sqrt(np.einsum("ij,jk,ik->i", weights, covariance, weights))
gain = weights @ returns.mean(axis=0)
best = (gain / risk).argmax()
drawdown = (np.maximum.accumulate(prices) - prices) / np.maximum.accumulate(prices)
print(weights[best].round(3), drawdown.max(axis=0).round(4), np.corrcoef(returns.T)[0, 1].round(5))
