# aim = "tools"
# tries = "Calls with an argument that the schema does not allow."
# tools = true
import tools

print(tools.lookup(key={"$ne": None}))
