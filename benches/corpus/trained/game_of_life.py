def step(cells):
    counts = {}
    for x, y in cells:
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                if dx or dy:
                    place = (x + dx, y + dy)
                    counts[place] = counts.get(place, 0) + 1
    return {place for place, n in counts.items() if n == 3 or n == 2 and place in cells}


cells = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)} | {(x + 20, y + 20) for x in range(5) for y in (0, 2)}
for _ in range(60):
    cells = step(cells)
print(len(cells), min(cells), max(cells))
