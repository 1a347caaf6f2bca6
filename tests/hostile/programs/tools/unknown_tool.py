# aim = "answer"
# tries = "Calls tools that are not there, and attributes of the module that are."
# tools = true
# control = "a module without the name raises in both"
import tools

for name in ("delete_all", "__class__", "__dict__", "__loader__", "lookup.__globals__", "\0", "a" * 100_000):
    try:
        print(str(getattr(tools, name)(key="a"))[:100])
    except Exception as error:
        print(type(error))
