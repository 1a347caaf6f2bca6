def solve(size, row=0, columns=0, left=0, right=0):
    if row == size:
        return 1
    count, free = 0, ~(columns | left | right) & ((1 << size) - 1)
    while free:
        bit = free & -free
        free ^= bit
        count += solve(size, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return count


def boards(size):
    def place(row, queens):
        if row == size:
            yield tuple(queens)
            return
        for column in range(size):
            if all(column != c and abs(column - c) != row - r for r, c in enumerate(queens)):
                yield from place(row + 1, [*queens, column])

    return list(place(0, []))


print(solve(8), len(boards(7)), boards(6)[0])
