import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

rng = np.random.default_rng(6)
frame = pd.DataFrame({"x": rng.normal(size=250), "g": rng.choice(list("abc"), 250)})
frame["y"] = 2 * frame.x + (frame.g == "b") + rng.normal(0, 0.3, 250)
model = smf.ols("y ~ x + C(g)", frame).fit()
print(model.params.round(4).to_dict(), round(model.rsquared, 4))
