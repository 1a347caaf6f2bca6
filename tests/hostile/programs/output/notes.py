# aim = "output"
# tries = "Adds notes to an exception."
error = ValueError("x")
for _ in range(100):
    error.add_note("n" * 400_000)
raise error
