import random
from collections import deque

random.seed(42)
HEIGHT, WIDTH = 150, 240
grid = [[random.random() < 0.55 for _ in range(WIDTH)] for _ in range(HEIGHT)]


def neighbors(row, column):
    for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        r, c = row + dr, column + dc
        if 0 <= r < HEIGHT and 0 <= c < WIDTH:
            yield r, c


def find_islands(grid):
    seen = set()
    islands = []
    for row in range(HEIGHT):
        for column in range(WIDTH):
            if not grid[row][column] or (row, column) in seen:
                continue
            queue = deque([(row, column)])
            seen.add((row, column))
            island = []
            while queue:
                cell = queue.popleft()
                island.append(cell)
                for r, c in neighbors(*cell):
                    if grid[r][c] and (r, c) not in seen:
                        seen.add((r, c))
                        queue.append((r, c))
            islands.append(island)
    return islands


def perimeter(island):
    cells = set(island)
    total = 0
    for cell in island:
        inside = sum(1 for other in neighbors(*cell) if other in cells)
        total += 4 - inside
    return total


islands = sorted(find_islands(grid), key=len, reverse=True)
print(f"{len(islands)} islands, the largest has {len(islands[0])} cells")
for number, island in enumerate(islands[:5], 1):
    rows = [row for row, _ in island]
    print(f"{number}. size {len(island):4d}  perimeter {perimeter(island):4d}  rows {min(rows)}-{max(rows)}")
