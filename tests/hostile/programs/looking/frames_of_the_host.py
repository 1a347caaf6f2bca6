# aim = "secret"
# tries = "Walks the stack up to the frames of the program that hosts it."
import sys

frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
        if "hostile-secret-" in str(value):
            print(name, str(value)[:2000])
    frame = frame.f_back
