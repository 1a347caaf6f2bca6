# aim = "alive"
# tries = "Jumps into the middle of a loop by a trace function."
# control = "CPython refuses most jumps; the class stays worth trying"
import sys


def trace(frame, event, argument):
    if event == "line":
        for line in range(frame.f_code.co_firstlineno, frame.f_code.co_firstlineno + 8):
            try:
                frame.f_lineno = line
            except ValueError:
                pass
    return trace if sys.gettrace() else None


def jumped(n):
    for i in range(n):
        with open("x", "w") as file:
            del i
    return n


sys.settrace(trace)
try:
    for _ in range(3):
        break
finally:
    sys.settrace(None)
jumped(2)
