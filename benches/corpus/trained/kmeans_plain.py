def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b))


points = [((i * 37 % 101) / 10, (i * 53 % 97) / 10) for i in range(600)]
centres = points[:4]
for _ in range(8):
    clusters = [[] for _ in centres]
    for point in points:
        nearest = min(range(len(centres)), key=lambda k: distance(point, centres[k]))
        clusters[nearest].append(point)
    centres = [tuple(sum(axis) / len(cluster) for axis in zip(*cluster)) for cluster in clusters if cluster]
print([tuple(round(x, 3) for x in centre) for centre in centres], [len(c) for c in clusters])
