import sys

sys.setrecursionlimit(10**9)


class Same:
    def __eq__(self, other):
        return other == self

    def __hash__(self):
        return 1


print({Same(): 1}[Same()])
