import json
from collections import defaultdict

lines = [json.dumps({"t": i, "level": ("info", "warn", "error")[i % 3], "ms": i * 37 % 1000}) for i in range(3_000)]
lines.insert(7, "{broken")
stats, bad = defaultdict(lambda: {"n": 0, "ms": 0}), 0
for line in lines:
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        bad += 1
        continue
    entry = stats[event["level"]]
    entry["n"] += 1
    entry["ms"] += event["ms"]
print(bad, {k: round(v["ms"] / v["n"], 2) for k, v in stats.items()})
