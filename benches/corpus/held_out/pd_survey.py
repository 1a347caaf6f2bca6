import pandas as pd

answers = ["yes", "no", "maybe"]
frame = pd.DataFrame({
    "age": [18 + i * 7 % 60 for i in range(900)],
    "answer": [answers[i * i % 3] for i in range(900)],
    "score": [i * 13 % 10 for i in range(900)],
    "text": [f"Comment {i % 12}, good" if i % 5 else None for i in range(900)],
})
frame["band"] = pd.cut(frame.age, bins=[0, 30, 50, 100], labels=["young", "middle", "old"])
print(pd.crosstab(frame.band, frame.answer, normalize="index").round(3))
print(frame.groupby("band", observed=True).score.agg(["mean", "median", "std"]).round(3))
print(frame.text.str.extract(r"Comment (\d+)")[0].dropna().astype(int).value_counts().head(3).to_dict())
print(frame.text.str.contains("good", na=False).sum(), frame.select_dtypes("number").corr().round(4).iloc[0, 1])
print(frame.sample(3, random_state=1).index.tolist(), frame.score.quantile([0.1, 0.9]).tolist(), pd.get_dummies(frame.answer).sum().to_dict())
