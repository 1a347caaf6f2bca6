# aim = "others"
# tries = "Leaves a module in a file, and its directory in the path."
# then_prints = "not here"
import os
import sys

open("planted_by_other.py", "w").write("here = True\n")
sys.path.insert(0, os.getcwd())
# --- then
try:
    import planted_by_other

    print("here")
except ImportError:
    print("not here")
