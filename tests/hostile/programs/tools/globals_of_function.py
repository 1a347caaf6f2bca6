# aim = "secret"
# tries = "Reads the host's variables through the tool's function."
# tools = true
import tools

print(tools.lookup.__globals__)
