# aim = "alive"
# tries = "Compiles a tree that was built by hand, deeper than any source."
# control = "CPython refuses by its own count from 3.9 to 3.13"
import ast
import sys

sys.setrecursionlimit(1 << 30)
node = ast.Constant(1)
for _ in range(200_000):
    node = ast.UnaryOp(ast.USub(), node)
compile(ast.fix_missing_locations(ast.Expression(node)) if False else ast.Expression(node), "<s>", "eval")
