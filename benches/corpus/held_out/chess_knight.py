MOVES = [(1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)]


def tour(size, start):
    board = {(x, y): 0 for x in range(size) for y in range(size)}

    def free(cell):
        return [m for dx, dy in MOVES if board.get(m := (cell[0] + dx, cell[1] + dy), 1) == 0]

    cell = start
    for step in range(1, size * size + 1):
        board[cell] = step
        options = free(cell)
        if not options:
            return step
        cell = min(options, key=lambda option: len(free(option)))
    return size * size


print([tour(size, (0, 0)) for size in (6, 8, 10, 12)])
