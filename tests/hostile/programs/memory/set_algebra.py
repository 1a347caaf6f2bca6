# aim = "memory"
# tries = "Makes sets of sets of sets."
held = set()
while True:
    held = held | {frozenset([len(held), i]) for i in range(50_000)}
