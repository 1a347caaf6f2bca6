import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

sns.barplot(pd.DataFrame({"x": ["a", "b"], "y": [1, 2]}), x="x", y="y")
plt.show()
sns.lmplot(pd.DataFrame({"x": [1, 2, 3], "y": [1, 2, 2]}), x="x", y="y")

# expect plots: ["plots/plot_1.png", "plots/plot_2.png"]
