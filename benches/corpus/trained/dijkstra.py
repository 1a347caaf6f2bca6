import heapq
from collections import defaultdict

graph = defaultdict(list)
for i in range(3_000):
    for j in (i * 3 + 1, i * 7 + 5, i + 1, i * i + 3):
        graph[i].append((j % 3_000, (i * j) % 17 + 1))


def shortest(start):
    distance, done, heap = {start: 0}, set(), [(0, start)]
    while heap:
        so_far, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        for other, weight in graph[node]:
            new = so_far + weight
            if other not in distance or new < distance[other]:
                distance[other] = new
                heapq.heappush(heap, (new, other))
    return distance


result = shortest(0)
print(len(result), sum(result.values()), max(result.values()))
