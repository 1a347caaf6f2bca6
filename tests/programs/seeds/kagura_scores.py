import statistics

scores = [78, 92, 85, 88, 95, 72, 90]
modes = statistics.multimode(scores)
result = {
    "mean": round(statistics.mean(scores), 2),
    "median": statistics.median(scores),
    "mode": modes[0] if len(modes) == 1 else None,
}

# with policy: strict
# expect result: {"mean": 85.71, "median": 88, "mode": null}
