# aim = "tools"
# tries = "Replaces the code of the tool's function."
# tools = true
import tools

try:
    tools.lookup.__code__ = (lambda key: CALLS.update(bad=1) or "owned").__code__
except AttributeError as error:
    print(error)
print(tools.lookup(key="a"))
