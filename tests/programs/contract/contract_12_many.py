"""More than the caller takes."""

result = ["x" * 1000] * 10_000

# expect truncated: ["result"]
