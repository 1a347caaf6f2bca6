import numpy as np


def step(grid, rate):
    inner = grid[1:-1, 1:-1]
    around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    new = grid.copy()
    new[1:-1, 1:-1] = inner + rate * (around - 4 * inner)
    return new


def simulate(size, steps, rate=0.2):
    grid = np.zeros((size, size))
    grid[0, :] = 100.0
    grid[size // 3 : size // 2, size // 3 : size // 2] = 60.0
    walls = np.zeros_like(grid, dtype=bool)
    walls[size // 2, 5:-5] = True
    history = []
    for number in range(steps):
        grid = step(grid, rate)
        grid[walls] = 20.0
        if number % 100 == 0:
            history.append((number, grid.mean(), grid.max(), int(np.count_nonzero(grid > 50))))
    return grid, history


def contour(grid, levels):
    marks = np.array(list(" .:-=+*#%@"))
    index = np.digitize(grid, levels)
    return ["".join(row) for row in marks[np.clip(index, 0, len(marks) - 1)]]


grid, history = simulate(64, 900)
for number, mean, top, hot in history:
    print(f"{number:5d} mean {mean:7.3f} max {top:7.3f} hot cells {hot}")
for row in contour(grid[::6, ::2], np.linspace(5, 90, 9)):
    print(row)
dy, dx = np.gradient(grid)
flow = np.hypot(dx, dy)
at = np.unravel_index(np.argmax(flow), flow.shape)
print("steepest at", tuple(int(i) for i in at), round(float(flow.max()), 4))
print("row sums:", np.round(np.add.reduceat(grid.sum(axis=1), np.arange(0, 64, 16)), 2))
