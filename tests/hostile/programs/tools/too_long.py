# aim = "tools"
# tries = "Calls with a text that is longer than the schema allows."
# tools = true
import tools

print(len(tools.lookup(key="x" * 5_000_000)))
