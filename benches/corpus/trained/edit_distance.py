def distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


words = ["kitten", "sitting", "saturday", "sunday", "intention", "execution", "algorithm", "altruistic"]
pairs = [(a, b, distance(a * 2, b * 2)) for a in words for b in words]
print(sum(d for _, _, d in pairs), min(pairs, key=lambda p: p[2] or 99))
