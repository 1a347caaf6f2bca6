import sys

sys.setrecursionlimit(10**9)


class Loop:
    def __getattr__(self, name):
        return getattr(self, name + "x")


Loop().a  # noqa: B018
