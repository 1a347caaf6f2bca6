# aim = "output"
# tries = "Leaves a result as large as a flood."
result = "x" * 40_000_000
