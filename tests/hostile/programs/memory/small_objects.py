# aim = "memory"
# tries = "Holds very many small objects, which no limit of a single size sees."
held = [object()]
while True:
    held.extend([object() for _ in range(100_000)])
