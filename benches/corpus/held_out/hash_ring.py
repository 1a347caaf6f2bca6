import bisect
import hashlib


class Ring:
    def __init__(self, nodes, copies=40):
        self.points = sorted((self.key(f"{n}#{i}"), n) for n in nodes for i in range(copies))
        self.keys = [point for point, _ in self.points]

    @staticmethod
    def key(text):
        return int.from_bytes(hashlib.sha1(text.encode()).digest()[:8], "big")

    def node(self, text):
        at = bisect.bisect(self.keys, self.key(text)) % len(self.points)
        return self.points[at][1]


names = [f"node{i}" for i in range(8)]
before, after = Ring(names), Ring(names[:-1])
keys = [f"user:{i}" for i in range(6_000)]
moved = sum(before.node(k) != after.node(k) for k in keys)
print(moved, sorted({before.node(k) for k in keys})[:3])
