# aim = "outside"
# tries = "Imports a file from outside, which runs it."
import importlib.util
import sys

open("run.py", "w").write("open('@OUTSIDE@/planted.txt', 'w')")
sys.path.insert(0, "../work")
import run
