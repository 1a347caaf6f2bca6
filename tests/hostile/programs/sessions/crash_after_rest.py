# aim = "alive"
# tries = "Crashes in its first run after it was put on the disk."
# session = true
# suspend = true
import sys

sys.setrecursionlimit(1 << 30)
# --- again
class Deep:
    def __repr__(self):
        return repr([self])


repr(Deep())
