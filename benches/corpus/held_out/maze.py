import random

random.seed(5)
SIZE = 41


def carve():
    grid = [["#"] * SIZE for _ in range(SIZE)]
    stack = [(1, 1)]
    grid[1][1] = " "
    while stack:
        x, y = stack[-1]
        ways = [(dx, dy) for dx, dy in ((2, 0), (-2, 0), (0, 2), (0, -2))
                if 0 < x + dx < SIZE - 1 and 0 < y + dy < SIZE - 1 and grid[y + dy][x + dx] == "#"]
        if not ways:
            stack.pop()
            continue
        dx, dy = random.choice(ways)
        grid[y + dy // 2][x + dx // 2] = grid[y + dy][x + dx] = " "
        stack.append((x + dx, y + dy))
    return grid


def solve(grid):
    from collections import deque

    queue, seen = deque([(1, 1, 0)]), {(1, 1)}
    while queue:
        x, y, steps = queue.popleft()
        if (x, y) == (SIZE - 2, SIZE - 2):
            return steps
        for cell in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if grid[cell[1]][cell[0]] == " " and cell not in seen:
                seen.add(cell)
                queue.append((*cell, steps + 1))


maze = carve()
print(solve(maze), sum(row.count(" ") for row in maze))
