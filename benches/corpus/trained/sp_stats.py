import numpy as np
from scipy import signal, spatial, stats

rng = np.random.default_rng(8)
a, b = rng.normal(0, 1, 800), rng.normal(0.2, 1.1, 800)
print(stats.ttest_ind(a, b).pvalue.round(8), stats.pearsonr(a, b).statistic.round(6), stats.shapiro(a[:200]).statistic.round(6))
print(stats.norm.cdf(1.96).round(6), stats.linregress(a, 2 * a + b).slope.round(6), stats.zscore(b).std().round(6))
tree = spatial.KDTree(rng.random((1_500, 2)))
print(tree.query([[0.5, 0.5]], k=3)[0].round(5), spatial.distance.pdist(rng.random((60, 3))).mean().round(5))
filtered = signal.filtfilt(*signal.butter(3, 0.1), a)
print(filtered.std().round(6), signal.find_peaks(filtered, height=0.3)[0][:4])
