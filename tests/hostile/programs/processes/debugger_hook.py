# aim = "outside"
# tries = "Has the interpreter run another program as its debugger's hook."
import os
import sys

os.environ["PYTHONBREAKPOINT"] = "os.system"
sys.breakpointhook("echo planted > @OUTSIDE@/planted.txt")
