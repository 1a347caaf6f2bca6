revenues = [1000, 1500, 800]
result = {
    "total": sum(revenues),
    "average": sum(revenues) / len(revenues),
    "min": min(revenues),
    "max": max(revenues),
}

# with policy: strict
# expect result: {"total": 3300, "average": 1100.0, "min": 800, "max": 1500}
