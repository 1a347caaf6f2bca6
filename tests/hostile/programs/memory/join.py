# aim = "memory"
# tries = "Joins one long text with itself."
print(len(("x" * 1_000_000).join(["y"] * 900)))
