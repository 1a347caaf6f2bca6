# aim = "time"
# tries = "Has a trace function that catches the interrupt in the code's place."
import sys


def trace(frame, event, argument):
    try:
        for _ in range(1000):
            pass
    except BaseException:
        pass
    return trace


sys.settrace(trace)
while True:
    try:
        for _ in range(1000):
            pass
    except BaseException:
        pass
