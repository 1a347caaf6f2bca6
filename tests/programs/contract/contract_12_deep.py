result = []
for _ in range(10_000):
    result = [result]

# expect truncated: ["result"]
