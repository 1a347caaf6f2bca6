import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns

rng = np.random.default_rng(17)
kinds = {"adelie": (38.8, 3.7), "chinstrap": (48.8, 3.73), "gentoo": (47.5, 5.08)}
frames = []
for kind, (bill, mass) in kinds.items():
    size = 60
    frames.append(
        pd.DataFrame(
            {
                "kind": kind,
                "bill": rng.normal(bill, 2.5, size),
                "mass": rng.normal(mass, 0.4, size),
                "sex": rng.choice(["female", "male"], size),
            }
        )
    )
penguins = pd.concat(frames, ignore_index=True)
penguins.loc[penguins["sex"] == "male", "mass"] += 0.5

sns.set_theme(style="whitegrid")
figure, axes = plt.subplots(1, 2, figsize=(9, 4))
sns.scatterplot(penguins, x="bill", y="mass", hue="kind", style="sex", ax=axes[0])
sns.boxplot(penguins, x="kind", y="mass", hue="sex", ax=axes[1])
axes[0].set_title("Bill and mass")
axes[1].set_xlabel("")
figure.tight_layout()
figure.savefig("penguins.png", dpi=70)
print(penguins.groupby(["kind", "sex"])["mass"].mean().round(2).unstack())
print([text.get_text() for text in axes[1].get_xticklabels()])
