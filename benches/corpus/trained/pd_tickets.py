import json

import pandas as pd

lines = []
for i in range(1200):
    minute = i * 7
    lines.append(
        f"2024-04-{1 + minute // 1440 % 28:02d} {minute // 60 % 24:02d}:{minute % 60:02d} [{'INFO WARN ERROR'.split()[i * i % 3]}] "
        f"ticket=T-{i % 300:04d} agent={'ann bob cid dee'.split()[i % 4]} action={'open reply wait close'.split()[i // 300]} took={i * 13 % 240}s"
    )
log = pd.Series(lines)
pattern = r"^(?P<when>\S+ \S+) \[(?P<level>\w+)\] ticket=(?P<ticket>\S+) agent=(?P<agent>\w+) action=(?P<action>\w+) took=(?P<took>\d+)s$"
events = log.str.extract(pattern)
events["when"] = pd.to_datetime(events["when"], format="%Y-%m-%d %H:%M")
events["took"] = pd.to_numeric(events["took"])
events["action"] = pd.Categorical(events["action"], ["open", "reply", "wait", "close"], ordered=True)
print(events.shape, events["level"].value_counts().sort_index().to_dict())

wide = events.pivot(index="ticket", columns="action", values="when")
wide["duration"] = wide["close"] - wide["open"]
wide["hours"] = wide["duration"].dt.total_seconds() / 3600
print(wide["hours"].agg(["min", "median", "max"]).round(2).to_dict())

agents = events.groupby("agent").agg(events=("ticket", "size"), tickets=("ticket", "nunique"), minutes=("took", lambda s: s.sum() / 60))
agents["per_ticket"] = agents["minutes"] / agents["tickets"]
print(agents.sort_values("minutes", ascending=False).round(2).to_string())


def classify(row):
    if row["level"] == "ERROR" and row["took"] > 120:
        return "urgent"
    return "slow" if row["took"] > 180 else "normal"


events["class"] = events.apply(classify, axis=1)
print(events.groupby("class")["took"].describe()[["count", "mean", "max"]].round(1))
nested = {
    agent: group.groupby("level")["took"].sum().to_dict() for agent, group in events.groupby("agent")
}
print(json.dumps(nested, sort_keys=True))
staff = pd.DataFrame({"agent": ["ann", "bob", "cid", "eve"], "team": ["north", "south", "north", "south"]})
merged = events.merge(staff, on="agent", how="left", indicator=True)
print(merged["_merge"].value_counts().to_dict(), merged.groupby("team", dropna=False)["took"].mean().round(2).to_dict())
events["gap"] = events.sort_values("when").groupby("ticket")["when"].diff()
print(events["gap"].dropna().median(), events.drop_duplicates("ticket").shape[0])
late = events.query("took > 200 and level != 'INFO'").assign(hour=lambda frame: frame["when"].dt.hour)
print(late.groupby("hour").size().nlargest(3).to_dict())
