# aim = "output"
# tries = "Has stacks dumped to its output again and again."
import faulthandler

faulthandler.enable(file=2)


def deep(n):
    while n == 0:
        faulthandler.dump_traceback(file=2)
    return deep(n - 1)


deep(99)
