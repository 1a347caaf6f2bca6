import ast

source = "\n".join(
    f"def f{i}(x, y=1):\n    if x > {i}:\n        return [x * k for k in range(y)]\n    return x + {i}"
    for i in range(150)
)
tree = ast.parse(source)
counts = {}
for node in ast.walk(tree):
    counts[type(node).__name__] = counts.get(type(node).__name__, 0) + 1


class Rename(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.copy_location(ast.Name(node.id + "_", node.ctx), node)


print(sorted(counts.items())[:6], len(ast.unparse(Rename().visit(tree))))
