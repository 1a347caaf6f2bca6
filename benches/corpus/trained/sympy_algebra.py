import sympy as sp

x, y = sp.symbols("x y")
expression = sp.expand((x + y) ** 6 - (x - y) ** 4)
print(sp.factor(x**4 - 1), sp.diff(sp.sin(x) * sp.exp(x), x), sp.integrate(x**2 * sp.cos(x), x))
print(sp.solve(x**3 - 6 * x**2 + 11 * x - 6, x), sp.simplify(sp.sin(x) ** 2 + sp.cos(x) ** 2))
print(len(expression.args), sp.limit(sp.sin(x) / x, x, 0), sp.Matrix([[1, 2], [3, 4]]).inv())
