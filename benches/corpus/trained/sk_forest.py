import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import classification_report, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, export_text

features, labels = make_classification(
    n_samples=400, n_features=8, n_informative=4, n_redundant=1, n_classes=2, class_sep=1.2, random_state=7
)
names = [f"feature_{i}" for i in range(features.shape[1])]
train_x, test_x, train_y, test_y = train_test_split(features, labels, test_size=0.3, random_state=7)

candidates = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(n_estimators=15, max_depth=6, random_state=0),
    "neighbors": KNeighborsClassifier(n_neighbors=7),
}
folds = KFold(n_splits=3, shuffle=True, random_state=1)
scores = {}
for name, model in candidates.items():
    found = cross_val_score(model, train_x, train_y, cv=folds)
    scores[name] = found.mean()
    print(f"{name:<10} {found.mean():.3f} +- {found.std():.3f}")

best = max(scores, key=scores.get)
model = candidates[best].fit(train_x, train_y)
predicted = model.predict(test_x)
print("best:", best, "auc:", round(roc_auc_score(test_y, model.predict_proba(test_x)[:, 1]), 3))
print(classification_report(test_y, predicted, digits=3))

forest = candidates["forest"].fit(train_x, train_y)
for i in np.argsort(-forest.feature_importances_)[:3]:
    print(names[i], round(float(forest.feature_importances_[i]), 3))
tree = candidates["tree"].fit(train_x, train_y)
print("\n".join(export_text(tree, feature_names=names, decimals=2).splitlines()[:8]))
