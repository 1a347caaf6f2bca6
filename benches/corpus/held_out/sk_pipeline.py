import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

rng = np.random.default_rng(10)
frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.uniform(size=300), "c": rng.choice(list("xyz"), 300)})
target = 3 * frame.a + (frame.c == "y") + rng.normal(0, 0.1, 300)
prepare = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(), ["c"])])
model = make_pipeline(prepare, GradientBoostingRegressor(n_estimators=30, random_state=0))
print(cross_val_score(model, frame, target, cv=3).round(3))
search = GridSearchCV(SVC(), {"C": [0.1, 1, 10]}, cv=3).fit(frame[["a", "b"]], target > 0)
print(search.best_params_, round(search.best_score_, 3))
