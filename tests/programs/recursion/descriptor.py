import sys

sys.setrecursionlimit(10**9)


class Owner:
    @property
    def value(self):
        return self.value


Owner().value  # noqa: B018
