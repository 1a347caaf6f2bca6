# aim = "alive"
# tries = "Recurses without the interpreter's limit."
import sys

sys.setrecursionlimit(1 << 30)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


Deep().a
