# aim = "output"
# tries = "Prints bytes that grow sixfold when they are written as JSON."
print("\x01" * 10_000_000)
