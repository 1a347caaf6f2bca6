# aim = "memory"
# tries = "Maps one letter to a long text, for each of many."
print(len(("a" * 100_000).translate({97: "b" * 10_000})))
