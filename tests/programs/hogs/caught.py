"""Catches the error, lets go of what it holds, and carries on."""

rows = []
try:
    while True:
        rows.append(bytes(1 << 20))
except MemoryError:
    most = len(rows)
    rows.clear()
rows.append(bytes(16 << 20))
print("recovered" if most > 32 else f"only {most} MiB")
