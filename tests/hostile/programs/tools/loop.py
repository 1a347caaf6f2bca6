# aim = "tools"
# tries = "Calls a hundred thousand times."
# tools = true
import tools

for _ in range(100_000):
    tools.lookup(key="a")
