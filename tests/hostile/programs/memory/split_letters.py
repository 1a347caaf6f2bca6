# aim = "memory"
# tries = "Splits a text into a list of all its letters."
held = ("é," * 20_000_000).split(",")
