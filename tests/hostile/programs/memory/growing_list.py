# aim = "memory"
# tries = "Collects until there is no more."
held = []
while True:
    held.append(bytes([len(held) % 256]) * (1 << 20))
