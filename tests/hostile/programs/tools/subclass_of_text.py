# aim = "tools"
# tries = "Calls with text that is not what it compares to."
# tools = true
import tools


class Liar(str):
    def __len__(self):
        return 1000

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


print(tools.lookup(key=Liar("a")) == "value of nothing")
