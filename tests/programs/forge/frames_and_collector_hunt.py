"""Looks for the runner's objects through frames and the garbage collector, and breaks them."""

import gc
import sys
import types

frame, above = sys._getframe(), []
while frame is not None:
    above.append(frame.f_code.co_filename)
    frame = frame.f_back
broken = 0
for thing in gc.get_objects():
    if isinstance(thing, types.ModuleType) and thing.__name__.startswith("_belljar"):
        thing.__dict__.clear()
        broken += 1
print("hunted")

# expect stdout: "hunted\n"
