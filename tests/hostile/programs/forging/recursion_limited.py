# aim = "answer"
# tries = "Leaves a limit of recursion with which nobody can reply."
import sys


class Low:
    def __repr__(self):
        sys.setrecursionlimit(sys.getrecursionlimit() and 10)
        return "x"


frame = sys._getframe()
depth = 0
while frame:
    depth, frame = depth + 1, frame.f_back
sys.setrecursionlimit(depth + 3)
