# aim = "output"
# tries = "Prints one line of a hundred megabytes."
print("x" * 100_000_000)
