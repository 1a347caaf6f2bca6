import heapq


def neighbours(cell, walls, size):
    x, y = cell
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        step = (x + dx, y + dy)
        if 0 <= step[0] < size and 0 <= step[1] < size and step not in walls:
            yield step


def search(start, goal, walls, size):
    queue, cost, came = [(0, start)], {start: 0}, {}
    while queue:
        _, current = heapq.heappop(queue)
        if current == goal:
            break
        for step in neighbours(current, walls, size):
            new = cost[current] + 1
            if new < cost.get(step, 1 << 30):
                cost[step] = new
                came[step] = current
                estimate = abs(goal[0] - step[0]) + abs(goal[1] - step[1])
                heapq.heappush(queue, (new + estimate, step))
    path = [goal]
    while path[-1] in came:
        path.append(came[path[-1]])
    return path[::-1]


walls = {(x, y) for x in range(60) for y in range(60) if (x * 7 + y * 13) % 5 == 0 and x != y}
walls -= {(0, 0), (59, 59)}
print(len(search((0, 0), (59, 59), walls, 60)))
