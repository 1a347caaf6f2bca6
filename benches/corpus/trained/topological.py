from collections import defaultdict, deque
from graphlib import TopologicalSorter

graph = {i: {j for j in (i // 2, i // 3, i - 7) if 0 <= j < i} for i in range(2_500)}


def kahn(graph):
    degree, after = {n: len(d) for n, d in graph.items()}, defaultdict(list)
    for node, needs in graph.items():
        for need in needs:
            after[need].append(node)
    ready, order = deque(n for n, d in degree.items() if not d), []
    while ready:
        node = ready.popleft()
        order.append(node)
        for other in after[node]:
            degree[other] -= 1
            if not degree[other]:
                ready.append(other)
    return order


class Union:
    def __init__(self, size):
        self.parent = list(range(size))

    def find(self, x):
        while self.parent[x] != x:
            self.parent[x] = self.parent[self.parent[x]]
            x = self.parent[x]
        return x

    def join(self, a, b):
        self.parent[self.find(a)] = self.find(b)


union = Union(5_000)
for i in range(4_000):
    union.join(i, i * 7 % 5_000)
print(kahn(graph)[-1], len(list(TopologicalSorter(graph).static_order())), len({union.find(i) for i in range(5_000)}))
