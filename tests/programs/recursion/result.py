"""What the host reports on afterwards is nested too deep itself."""

nested = {}
result = nested
for _ in range(1_000_000):
    nested["n"] = {}
    nested = nested["n"]
