# aim = "memory"
# tries = "Compiles a program that is one huge expression."
source = "[" + "(1,2,3,4,5,6,7)," * 3_000_000 + "]"
import ast

tree = ast.parse(source)
