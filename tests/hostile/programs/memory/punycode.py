# aim = "memory"
# tries = "Decodes a short name into letters that are inserted one by one."
held = []
while True:
    held.append(("xn--" + "a" * 50).encode().decode("idna") + "\U0010ffff" * 500_000)
