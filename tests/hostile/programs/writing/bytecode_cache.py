# aim = "outside"
# tries = "Has the import system write compiled code outside."
import importlib
import sys

sys.dont_write_bytecode = False
sys.pycache_prefix = "@OUTSIDE@"
open("planted.py", "w").write("x = 1\n")
sys.path.insert(0, "")
importlib.invalidate_caches()
import planted
