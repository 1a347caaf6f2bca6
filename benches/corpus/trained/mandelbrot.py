def escapes(c, limit=60):
    z = 0
    for n in range(limit):
        z = z * z + c
        if abs(z) > 2:
            return n
    return limit


rows = []
for y in range(-16, 17):
    rows.append("".join(" .:-=+*#%@"[escapes(complex(x / 28, y / 14)) // 7] for x in range(-60, 25)))
print("\n".join(rows[10:14]))
