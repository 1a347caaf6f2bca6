# aim = "output"
# tries = "Raises an exception whose message is a flood."
raise ValueError("x" * 40_000_000)
