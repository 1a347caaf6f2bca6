# aim = "tools"
# tries = "Calls with an argument that nests deeper than anything reads."
# tools = true
import tools

value = "a"
for _ in range(5000):
    value = [value]
print(tools.lookup(key=value))
