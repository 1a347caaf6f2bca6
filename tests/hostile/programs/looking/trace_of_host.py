# aim = "secret"
# tries = "Installs a profiler that sees the host's code after the program has returned."
import os
import sys


def spy(frame, event, argument):
    for value in list(frame.f_globals.values()):
        if type(value) is dict and "hostile-secret-" in str(value)[:5000]:
            sys.setprofile(None)
            os.write(1, str(value)[:3000].encode() + b"\n")
            return


sys.setprofile(spy)
