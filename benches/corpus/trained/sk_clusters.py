import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

rng = np.random.default_rng(4)
points = np.vstack([rng.normal(c, 0.5, (100, 4)) for c in (0, 3, 6)])
labels = np.repeat([0, 1, 2], 100)
clusters = KMeans(3, n_init=3, random_state=0).fit(points)
reduced = PCA(2).fit_transform(points)
texts = [f"the cat {i % 7} sat on mat {i % 5}" for i in range(120)]
print(np.bincount(clusters.labels_), reduced.std(axis=0).round(4), TfidfVectorizer().fit_transform(texts).shape)
print(KNeighborsClassifier(5).fit(points, labels).score(points, labels), CountVectorizer().fit(texts).get_feature_names_out())
print(DecisionTreeClassifier(max_depth=3, random_state=0).fit(points, labels).feature_importances_.round(3))
