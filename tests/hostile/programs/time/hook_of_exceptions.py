# aim = "time"
# tries = "Raises an exception, and loops in the hook that shows it."
# control = "the control catches what its programs raise, and calls no hook"
import sys


def hook(*_):
    while True:
        pass


sys.excepthook = hook
raise ValueError
