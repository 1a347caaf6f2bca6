from heapq import heappop, heappush

GOAL = (1, 2, 3, 4, 5, 6, 7, 8, 0)


def estimate(state):
    return sum(abs(i // 3 - (v - 1) // 3) + abs(i % 3 - (v - 1) % 3) for i, v in enumerate(state) if v)


def moves(state):
    hole = state.index(0)
    for step in (-3, 3, -1, 1):
        other = hole + step
        if 0 <= other < 9 and (abs(step) == 3 or other // 3 == hole // 3):
            new = list(state)
            new[hole], new[other] = new[other], new[hole]
            yield tuple(new)


def solve(start):
    heap, seen = [(estimate(start), 0, start)], {start: 0}
    while heap:
        _, steps, state = heappop(heap)
        if state == GOAL:
            return steps, len(seen)
        for new in moves(state):
            if seen.get(new, 99) > steps + 1:
                seen[new] = steps + 1
                heappush(heap, (steps + 1 + estimate(new), steps + 1, new))


print(solve((4, 1, 3, 2, 8, 5, 7, 0, 6)), solve((1, 2, 3, 4, 0, 6, 7, 5, 8)))
