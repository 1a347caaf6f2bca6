def length(n, known={1: 1}):
    path = []
    while n not in known:
        path.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps = known[n]
    for m in reversed(path):
        steps += 1
        known[m] = steps
    return steps


best = max(range(1, 20_000), key=length)
print(best, length(best))
