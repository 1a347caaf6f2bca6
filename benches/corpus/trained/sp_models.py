import numpy as np
from scipy import integrate, interpolate, optimize, signal
from scipy.spatial import KDTree, distance


def predator_prey(t, state, a=1.1, b=0.4, c=0.4, d=0.1):
    prey, predators = state
    return [prey * (a - b * predators), predators * (d * prey - c)]


solution = integrate.solve_ivp(predator_prey, (0, 40), [10, 5], t_eval=np.linspace(0, 40, 400), rtol=1e-9)
prey = solution.y[0]
peaks, _ = signal.find_peaks(prey)
print("steps:", solution.nfev, "peaks at", np.round(solution.t[peaks], 2))
print("period:", round(float(np.diff(solution.t[peaks]).mean()), 3))


def decay(t, height, rate, rest):
    return height * np.exp(-rate * t) + rest


rng = np.random.default_rng(0)
times = np.linspace(0, 6, 60)
measured = decay(times, 5.0, 0.8, 1.5) + rng.normal(0, 0.08, times.size)
values, covariance = optimize.curve_fit(decay, times, measured, p0=(4, 1, 1))
for name, value, error in zip(("height", "rate", "rest"), values, np.sqrt(np.diag(covariance))):
    print(f"{name:<7}{value:8.4f} +- {error:.4f}")

spline = interpolate.CubicSpline(times[::6], measured[::6])
root = optimize.brentq(lambda t: spline(t) - 3, 0, 5)
area, _ = integrate.quad(lambda t: float(spline(t)), 0, 5)
print("falls to 3 at", round(root, 4), "area", round(area, 4))

result = optimize.linprog([-3, -5], A_ub=[[1, 0], [0, 2], [3, 2]], b_ub=[4, 12, 18])
print("linear program:", np.round(result.x, 4), round(-result.fun, 4))

points = rng.uniform(0, 10, (1500, 2))
tree = KDTree(points)
near, _ = tree.query(points, k=2)
print("nearest:", np.round(np.percentile(near[:, 1], [10, 50, 90]), 4), len(tree.query_pairs(0.1)))
print("diameter:", round(float(distance.pdist(points).max()), 4))
filtered = signal.savgol_filter(measured, 11, 2)
print("noise left:", round(float(np.std(filtered - decay(times, *values))), 4))
