# aim = "output"
# tries = "Prints without end."
while True:
    print("x" * 10_000)
