from functools import cache

grid = [[(x * y + x + y) % 9 for x in range(45)] for y in range(45)]


@cache
def cheapest(x, y):
    if x < 0 or y < 0:
        return float("inf")
    if x == y == 0:
        return grid[0][0]
    return grid[y][x] + min(cheapest(x - 1, y), cheapest(x, y - 1))


def islands(level):
    seen, count = set(), 0
    for y in range(45):
        for x in range(45):
            if grid[y][x] < level or (x, y) in seen:
                continue
            count += 1
            todo = [(x, y)]
            while todo:
                a, b = todo.pop()
                if (a, b) in seen or not (0 <= a < 45 and 0 <= b < 45) or grid[b][a] < level:
                    continue
                seen.add((a, b))
                todo += [(a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)]
    return count


print(cheapest(44, 44), [islands(level) for level in range(1, 9)])
