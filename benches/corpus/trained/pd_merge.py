import pandas as pd

users = pd.DataFrame({"user": range(400), "country": [["de", "fr", "it"][i % 3] for i in range(400)]})
orders = pd.DataFrame({"user": [i * 7 % 420 for i in range(2_500)], "amount": [i % 97 for i in range(2_500)]})
joined = orders.merge(users, on="user", how="left")
print(joined["country"].isna().sum(), joined.groupby("country")["amount"].sum().to_dict())
wide = joined.assign(big=joined.amount > 50).groupby(["country", "big"]).size().unstack()
print(wide, pd.concat([users.head(2), users.tail(2)]).to_dict("records")[3])
long = wide.reset_index().melt(id_vars="country")
print(long.shape, joined.set_index("user").loc[7].head(2), joined.query("amount > 90 and country == 'de'").shape)
