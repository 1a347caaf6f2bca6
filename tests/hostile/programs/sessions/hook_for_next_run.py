# aim = "time"
# tries = "Leaves a trace function that hangs in the next run."
# session = true
import sys


def trace(frame, event, argument):
    if frame.f_globals.get("armed"):
        while True:
            pass
    return trace


sys.settrace(trace)
armed = True
# --- again
def called():
    return 1


called()
