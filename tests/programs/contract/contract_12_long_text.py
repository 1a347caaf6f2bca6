result = "é" * 2_000_000

# expect truncated: ["result"]
