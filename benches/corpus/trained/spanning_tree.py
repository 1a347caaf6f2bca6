import math
import random


class DisjointSet:
    def __init__(self, size):
        self.parent = list(range(size))
        self.rank = [0] * size
        self.count = size

    def find(self, item):
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.rank[a] < self.rank[b]:
            a, b = b, a
        self.parent[b] = a
        if self.rank[a] == self.rank[b]:
            self.rank[a] += 1
        self.count -= 1
        return True


def kruskal(points):
    edges = []
    for i, (x1, y1) in enumerate(points):
        for j in range(i + 1, len(points)):
            x2, y2 = points[j]
            edges.append((math.hypot(x1 - x2, y1 - y2), i, j))
    edges.sort()
    sets = DisjointSet(len(points))
    tree = []
    for length, i, j in edges:
        if sets.union(i, j):
            tree.append((i, j, length))
            if sets.count == 1:
                break
    return tree


random.seed(11)
cities = [(random.uniform(0, 100), random.uniform(0, 100)) for _ in range(450)]
tree = kruskal(cities)
degree = {}
for i, j, _ in tree:
    degree[i] = degree.get(i, 0) + 1
    degree[j] = degree.get(j, 0) + 1
print("edges:", len(tree))
print("total length:", round(sum(length for *_, length in tree), 3))
print("longest edge:", round(max(tree, key=lambda edge: edge[2])[2], 3))
print("leaves:", sum(1 for count in degree.values() if count == 1))
