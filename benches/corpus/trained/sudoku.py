PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"


def candidates(board, at):
    row, column = divmod(at, 9)
    used = set(board[row * 9 : row * 9 + 9]) | set(board[column::9])
    top, left = row // 3 * 3, column // 3 * 3
    for r in range(top, top + 3):
        used.update(board[r * 9 + left : r * 9 + left + 3])
    return [d for d in "123456789" if d not in used]


def solve(board):
    best = None
    for at in range(81):
        if board[at] == "0":
            options = candidates(board, at)
            if best is None or len(options) < len(best[1]):
                best = at, options
    if best is None:
        return board
    for digit in best[1]:
        board[best[0]] = digit
        if solve(board):
            return board
        board[best[0]] = "0"
    return None


for _ in range(2):
    solved = "".join(solve(list(PUZZLE)))
print(solved)
