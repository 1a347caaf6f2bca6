# aim = "memory"
# tries = "Has a format string ask for the width."
print(len(format(1, f">{800 << 20}")))
