# aim = "alive"
# tries = "Recurses through methods of C, which use the machine's stack."
import sys

sys.setrecursionlimit(1 << 30)


class Key:
    def __repr__(self):
        return repr([self])

    def __eq__(self, other):
        return [self] == [other]


repr(Key())
