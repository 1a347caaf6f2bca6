def move(n, source, target, spare, log):
    if n:
        move(n - 1, source, spare, target, log)
        log.append((source, target))
        move(n - 1, spare, target, source, log)


log = []
move(13, "A", "C", "B", log)
pegs = {"A": list(range(13, 0, -1)), "B": [], "C": []}
for source, target in log:
    disc = pegs[source].pop()
    assert not pegs[target] or pegs[target][-1] > disc
    pegs[target].append(disc)
print(len(log), pegs)
