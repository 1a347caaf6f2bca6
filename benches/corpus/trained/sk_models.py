import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(2)
x = rng.normal(size=(400, 5))
y = (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
a, b, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0)
scaler = StandardScaler().fit(a)
model = LogisticRegression().fit(scaler.transform(a), ya)
forest = RandomForestClassifier(n_estimators=15, random_state=0).fit(a, ya)
line = LinearRegression().fit(x, x @ [1, 2, 3, 4, 5])
print(accuracy_score(yb, model.predict(scaler.transform(b))), forest.score(b, yb), line.coef_.round(4))
print(round(r2_score(x[:, 0], line.predict(x)), 4))
