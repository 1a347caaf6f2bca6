# aim = "memory"
# tries = "Grows one table, whose rehashing needs both the old and the new."
held = {}
while True:
    held[len(held)] = None
