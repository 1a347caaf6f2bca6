from collections import deque

graph = {n: [(n * 3 + 1) % 20_000, (n * 5 + 2) % 20_000, (n + 7) % 20_000] for n in range(20_000)}


def distances(start):
    seen, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in graph[node]:
            if other not in seen:
                seen[other] = seen[node] + 1
                queue.append(other)
    return seen


found = distances(0)
print(len(found), max(found.values()), sum(found.values()))
