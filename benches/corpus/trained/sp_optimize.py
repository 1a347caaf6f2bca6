import numpy as np
from scipy import integrate, interpolate, optimize

found = optimize.minimize(lambda v: (v[0] - 1) ** 2 + 10 * (v[1] - v[0] ** 2) ** 2, [-1.0, 2.0])
root = optimize.brentq(lambda x: x**3 - 2 * x - 5, 2, 3)
area, _ = integrate.quad(lambda x: np.exp(-(x**2)), -5, 5)
x = np.linspace(0, 10, 30)
fitted, _ = optimize.curve_fit(lambda t, a, b: a * np.exp(-b * t), x, 3 * np.exp(-0.4 * x))
spline = interpolate.CubicSpline(x, np.sin(x))
solution = integrate.solve_ivp(lambda t, y: [-0.5 * y[0], y[0] - y[1]], (0, 10), [2.0, 0.0])
print(found.x.round(4), round(root, 6), round(area, 6), fitted.round(4), spline(2.5).round(6), solution.y[:, -1].round(5))
