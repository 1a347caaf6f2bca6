# aim = "tools"
# tries = "Calls from destructors, where nobody expects it."
# tools = true
import tools


class Caller:
    def __del__(self):
        tools.lookup(key="a")


for _ in range(300):
    Caller()
