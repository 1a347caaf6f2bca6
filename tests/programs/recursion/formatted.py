import sys

sys.setrecursionlimit(10**9)


class Nested:
    def __format__(self, spec):
        return f"{self}"

    def __str__(self):
        return format(self)


print(Nested())
