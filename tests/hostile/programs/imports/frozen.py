# aim = "outside"
# tries = "Runs the interpreter's own modules as programs, which take a command."
import runpy
import sys

sys.argv = ["timeit", "-n", "1", "-r", "1", "open('@OUTSIDE@/planted.txt', 'w')"]
runpy.run_module("timeit", run_name="__main__")
