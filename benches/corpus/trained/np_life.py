import numpy as np

rng = np.random.default_rng(0)
board = rng.random((80, 80)) < 0.3
for _ in range(60):
    neighbours = sum(
        np.roll(np.roll(board, dy, 0), dx, 1).astype(int)
        for dx in (-1, 0, 1)
        for dy in (-1, 0, 1)
        if dx or dy
    )
    board = (neighbours == 3) | (board & (neighbours == 2))
print(board.sum(), board.any(axis=0).sum(), np.argwhere(board)[:2].tolist())
