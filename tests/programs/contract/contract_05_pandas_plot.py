import pandas as pd

pd.DataFrame({"a": [1, 3, 2]}).plot(kind="bar")

# expect plots: ["plots/plot_1.png"]
