LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
nodes = 0


def winner(board):
    for a, b, c in LINES:
        if board[a] != " " and board[a] == board[b] == board[c]:
            return board[a]
    return None


def minimax(board, player, alpha=-2, beta=2):
    global nodes
    nodes += 1
    won = winner(board)
    if won:
        return 1 if won == "X" else -1
    if " " not in board:
        return 0
    best = -2 if player == "X" else 2
    for at in range(9):
        if board[at] == " ":
            board[at] = player
            score = minimax(board, "O" if player == "X" else "X", alpha, beta)
            board[at] = " "
            if player == "X":
                best, alpha = max(best, score), max(alpha, score)
            else:
                best, beta = min(best, score), min(beta, score)
            if alpha >= beta:
                break
    return best


print(minimax([" "] * 9, "X"), nodes)
