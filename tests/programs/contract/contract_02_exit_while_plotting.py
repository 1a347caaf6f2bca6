import sys

import matplotlib.pyplot as plt
import pandas as pd

frame = pd.DataFrame({"a": [1]})
plt.plot([1, 2])
result = "half done"
sys.exit(2)

# expect kind: "exit"
# expect exit_status: 2
# expect plots: ["plots/plot_1.png"]
# expect dataframes: ["frame"]
# expect result: "half done"
